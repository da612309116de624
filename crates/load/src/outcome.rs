//! What comes out of a scenario.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

/// What a scenario found.
#[derive(Debug)]
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

    /// Prints the table, and the JSON where it was asked for; `-` prints the JSON instead of the table.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn publish(&self, json: Option<&Path>) -> Result<()> {
        match json {
            Some(path) if path == Path::new("-") => {
                print!("{}", self.json);
                return Ok(());
            }
            Some(path) => {
                std::fs::write(path, &self.json).with_context(|| format!("cannot write {}", path.display()))?;
            }
            None => {}
        }
        print!("{}", self.table);
        Ok(())
    }
}
