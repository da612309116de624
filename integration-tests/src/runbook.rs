//! Alerts and their runbook, as they are committed.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;

use serde::Deserialize;
use tokio::process::Command;

use crate::rendered::repository;

/// The rule file.
#[must_use]
pub fn rules_text() -> String {
    fs::read_to_string(repository().join("deploy/observability/rules.yaml")).unwrap()
}

/// One alert.
#[derive(Debug, Clone, Deserialize)]
pub struct Alert {
    /// Its name.
    pub alert: String,
    /// When it is.
    pub expr: String,
    /// For how long before it fires.
    pub r#for: String,
    /// How urgent it is.
    pub labels: BTreeMap<String, String>,
    /// What is said of it.
    pub annotations: BTreeMap<String, String>,
}

/// All alerts of the rule file.
///
/// # Panics
/// If it is none.
#[must_use]
pub fn alerts() -> Vec<Alert> {
    #[derive(Deserialize)]
    struct Group {
        rules: Vec<Alert>,
    }
    #[derive(Deserialize)]
    struct File {
        groups: Vec<Group>,
    }
    let File { groups } = serde_saphyr::from_str(&rules_text()).unwrap();
    groups.into_iter().flat_map(|group| group.rules).collect()
}

/// One entry of the runbook.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The alert that it is about.
    pub alert: String,
    /// All of it.
    pub text: String,
    /// The command that it ends with.
    pub command: String,
}

/// The runbook's entries, in their order.
///
/// # Panics
/// If one does not end with a command.
#[must_use]
pub fn entries() -> Vec<Entry> {
    let page = fs::read_to_string(repository().join("docs/RUNBOOK.md")).unwrap();
    let entry = |part: &str| {
        let (alert, text) = part.split_once('\n').unwrap();
        let command = text.trim_end().strip_suffix("```").and_then(|text| text.rsplit_once("```sh\n"));
        let (_, command) = command.unwrap_or_else(|| panic!("{alert} does not end with a command"));
        Entry { alert: alert.to_owned(), text: text.to_owned(), command: command.trim_end().to_owned() }
    };
    page.split("\n## ").skip(1).map(entry).collect()
}

impl Entry {
    /// That of an alert.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn of(alert: &str) -> Self {
        entries().into_iter().find(|entry| entry.alert == alert).unwrap_or_else(|| panic!("no entry for {alert}"))
    }

    /// Runs its command as it stands there, with these variables and a folder in front of the path.
    ///
    /// # Panics
    /// If it fails.
    pub async fn run(&self, path: &str, variables: &[(&str, String)]) {
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", &self.command]).env("PATH", path).stdin(Stdio::null()).kill_on_drop(true);
        let output = bash.envs(variables.iter().map(|(name, value)| (name, value))).output().await.unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}: {}\n{}", self.alert, self.command, String::from_utf8_lossy(&said));
    }
}
