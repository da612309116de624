//! What comes out of a scenario.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::report_page;

/// What a scenario found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// For people.
    pub table: String,
    /// For programs.
    pub json: String,
    /// What speaks against the servers, or against the measurement; empty when all is well.
    pub failures: Vec<String>,
}

impl Outcome {
    pub(crate) fn new(table: String, report: &impl Serialize, failures: Vec<String>) -> Result<Self> {
        Ok(Self { table, json: serde_json::to_string_pretty(report)? + "\n", failures })
    }

    /// Of a process that has told another one what it found.
    pub(crate) fn silent() -> Self {
        Self::default()
    }

    /// Prints the table, and writes the JSON and the HTML page where they were asked for; `-` prints the JSON instead of the
    /// table.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn publish(&self, json: Option<&Path>, html: Option<&Path>) -> Result<()> {
        if self.json.is_empty() {
            return Ok(());
        }
        if let Some(path) = html {
            write(path, &report_page::render(&self.table, &self.failures, &self.json))?;
        }
        match json {
            Some(path) if path == Path::new("-") => {
                print!("{}", self.json);
                return Ok(());
            }
            Some(path) => write(path, &self.json)?,
            None => {}
        }
        print!("{}", self.table);
        Ok(())
    }
}

/// What sockets that ended though we did not end them say against the servers, by reason.
pub(crate) fn closed_failures(closed: &BTreeMap<String, u64>) -> impl Iterator<Item = String> + '_ {
    closed.iter().map(|(reason, count)| format!("{count} sockets closed: {reason}"))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
