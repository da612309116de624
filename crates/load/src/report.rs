//! The report of a scenario, which `main` prints. Text and JSON derive from one list of values.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::latency::{Latencies, Percentiles};

/// The results of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Report {
    values: Vec<(String, Value)>,
    /// Failures of the servers or of the measurement; empty if the run was good.
    pub failures: Vec<String>,
    /// Text of a scenario with its own table; `None` derives the text from the values.
    pub(crate) table: Option<String>,
}

impl Report {
    pub(crate) fn new(scenario: &'static str) -> Self {
        let mut report = Self::default();
        report.set("scenario", scenario);
        report
    }

    /// Adds a value; `None` is left out. One that cannot be written as JSON becomes its error text.
    pub(crate) fn set(&mut self, name: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).unwrap_or_else(|error| Value::String(error.to_string()));
        if !value.is_null() {
            self.values.push((name.to_owned(), value));
        }
    }

    /// Adds a value unless it is the default.
    pub(crate) fn set_used<T: Serialize + Default + PartialEq>(&mut self, name: &str, value: &T) {
        if *value != T::default() {
            self.set(name, value);
        }
    }

    pub(crate) fn fail(&mut self, failure: String) {
        self.failures.push(failure);
    }

    /// Adds the failure "`count` `what`", unless `count` is 0.
    pub(crate) fn fail_if(&mut self, count: u64, what: &str) {
        if count > 0 {
            self.fail(format!("{count} {what}"));
        }
    }

    /// Adds a failure that names `what` if the 99th percentile of `times`, 0 without any, is above
    /// the limit in milliseconds. `None`: no limit.
    pub(crate) fn fail_above(&mut self, what: &str, times: &Latencies, limit_ms: Option<f64>) {
        let p99 = times.percentiles().p99 as f64 / 1_000.0;
        if let Some(limit) = limit_ms.filter(|limit| p99 > *limit) {
            self.fail(format!("p99 of the {what} is {p99:.1} ms, above {limit} ms"));
        }
    }

    /// Returns the values as a JSON object with a final newline. Failures are not in it.
    ///
    /// # Errors
    /// If a value cannot be written as JSON.
    pub fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Returns the report as text: its own table, or one line per value and per nested object with
    /// scalars. An empty value has none. Failures are not in it.
    pub fn text(&self) -> String {
        if let Some(table) = &self.table {
            return table.clone();
        }
        let mut text = String::new();
        self.values.iter().for_each(|(name, value)| write_value(&mut text, name, value));
        text
    }

    /// Prints the text and writes the JSON to this file. `None`: only the text; `-` prints the JSON
    /// instead of the text. Panics if standard output is closed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn publish(&self, json: Option<&Path>) -> Result<()> {
        match json {
            Some(path) if path == Path::new("-") => print!("{}", self.json()?),
            Some(path) => {
                std::fs::write(path, self.json()?).with_context(|| format!("cannot write {}", path.display()))?;
                print!("{}", self.text());
            }
            None => print!("{}", self.text()),
        }
        Ok(())
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.values.iter().map(|entry| (&entry.0, &entry.1)))
    }
}

fn write_value(text: &mut String, name: &str, value: &Value) {
    let line = match value {
        Value::Array(items) => return items.iter().for_each(|item| write_value(text, name, item)),
        Value::Object(fields) => match serde_json::from_value::<Percentiles>(value.clone()) {
            Ok(times) => times.line(),
            Err(_) => {
                let (nested, flat): (Vec<_>, Vec<_>) =
                    fields.iter().partition(|(_, value)| value.is_object() || value.is_array());
                let flat: Vec<_> = flat.iter().map(|(name, value)| format!("{name} {}", scalar(value))).collect();
                if !flat.is_empty() {
                    write_line(text, name, &flat.join(", "));
                }
                return nested.iter().for_each(|(field, value)| write_value(text, &format!("{name}.{field}"), value));
            }
        },
        scalar_value => scalar(scalar_value),
    };
    write_line(text, name.trim_end_matches("_us"), &line);
}

fn write_line(text: &mut String, name: &str, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name:<20} {line}");
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.2}", number.as_f64().unwrap_or(0.0)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_has_a_line_for_each_value_in_order() {
        let mut report = Report::new("steady");
        report.set("latency_us", Percentiles { count: 1, p50: 85, p95: 1_020, p99: 2_000, p99_9: 3, max: 4 });
        report.set("messages", json!({ "lost": 0, "sent": 7, "more": { "share": 0.5 } }));
        report.set("acts", json!([{ "act": "kill node-1" }, { "act": "scale 3" }]));
        report.set("costs", None::<u32>);

        let text = report.text();

        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.splitn(2, ' ').map(str::trim).collect()).collect();
        let expected = [
            ["scenario", "steady"],
            ["latency", "p50 0.085  p95 1.020  p99 2.000  p99.9 0.003  max 0.004 ms"],
            ["messages", "lost 0, sent 7"],
            ["messages.more", "share 0.50"],
            ["acts", "act kill node-1"],
            ["acts", "act scale 3"],
        ];
        assert_eq!(lines, expected);
        let json: Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        assert_eq!(json["messages"]["sent"], 7);
    }
}
