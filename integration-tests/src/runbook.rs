//! The committed alerts and their runbook, `docs/RUNBOOK.md`, for the drill of alerts.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use tokio::process::Command;

use crate::rendered::repository;

/// Returns the text of the rule file.
pub fn rules_text() -> String {
    fs::read_to_string(repository().join("deploy/observability/rules.yaml")).unwrap()
}

/// Returns the names of all alerts of the rule file.
pub fn alerts() -> BTreeSet<String> {
    let text = rules_text();
    text.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned).collect()
}

/// One entry of the runbook: the name of an alert and its shell command.
#[derive(Debug, Clone)]
pub struct Entry {
    pub alert: String,
    /// Shell command of at least one line, for `bash -euo pipefail`.
    pub command: String,
}

impl Entry {
    /// Reads the entry of an alert. Panics if it is missing or does not end with a command.
    pub fn of(alert: &str) -> Self {
        let page = fs::read_to_string(repository().join("docs/RUNBOOK.md")).unwrap();
        let heading = format!("\n## {alert}\n");
        let text = page.split_once(&heading).unwrap_or_else(|| panic!("no entry for {alert}")).1;
        let text = text.split("\n## ").next().unwrap().trim_end();
        let command = text.strip_suffix("```").and_then(|text| text.rsplit_once("```sh\n"));
        let (_, command) = command.unwrap_or_else(|| panic!("{alert} does not end with a command"));
        Self { alert: alert.to_owned(), command: command.trim_end().to_owned() }
    }

    /// Runs the entry's command unchanged, with `path` as its `PATH` and with these variables.
    /// Panics if it fails.
    pub async fn run(&self, path: &str, variables: &[(&str, String)]) {
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", &self.command]).env("PATH", path).stdin(Stdio::null()).kill_on_drop(true);
        let output = bash.envs(variables.iter().map(|(name, value)| (name, value))).output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}: {}\n{}", self.alert, self.command, String::from_utf8_lossy(&text));
    }
}
