//! `docs/CONFIG.md` lists the settings that the servers have.
//!
//! `WRITE_CONFIG=1 cargo test -p signaling-integration-tests --test promises config_reference`
//! writes it.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};
use signaling_integration_tests::assert_document;
use signaling_server::config_file::command;

/// `signaling-node --help` fits on three screens.
const MAX_HELP_LINES: usize = 150;
const HEAD: &str = "# Configuration

All settings of `signaling-node` and `signaling-balancer`. Each is a flag, an environment variable
and a key of the TOML file of `--config`, which is the flag without `--`. The flags under
Configuration are no keys. Flags win over variables, and variables over the file.
[OPERATING.md](OPERATING.md#configuration-file) shows a file, and [LIMITS.md](LIMITS.md) what
happens past each limit.

This page is written from the code:
`WRITE_CONFIG=1 cargo test -p signaling-integration-tests --test promises config_reference`.
";

fn servers() -> [Command; 2] {
    [command::<signaling_node::config::Args>(), command::<signaling_balancer::config::Args>()]
}

/// Text before the keys that `--help` omits.
const HIDDEN: &str = "
## Further keys

`--help` omits these settings. Nodes refuse `--room-store`. Tests change the others; leave them as
they are.
";
const TABLE: &str = "\n| flag | server | variable | default | meaning |\n|---|---|---|---|---|";

/// A row of a table, and the servers that have it.
struct Row {
    heading: String,
    flag: String,
    rest: String,
    servers: Vec<String>,
}

fn row(server: &Command, arg: &Arg) -> Row {
    let values: Vec<_> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let value =
        if arg.get_action().takes_values() { arg.get_value_names().unwrap()[0].to_string() } else { String::new() };
    let value = if values.is_empty() || value.is_empty() { value } else { values.join("\\|") };
    let flag = format!("`--{} {value}", arg.get_long().unwrap()).trim_end().to_owned() + "`";
    let variable = arg.get_env().map(|name| format!("`{}`", name.to_str().unwrap())).unwrap_or_default();
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_str().unwrap()).collect();
    let default = match (arg.is_required_set(), arg.get_action()) {
        (true, _) => "required".to_owned(),
        (_, ArgAction::SetTrue) => "off".to_owned(),
        _ if defaults.is_empty() => String::new(),
        _ => format!("`{}`", defaults.join(",")),
    };
    let help = arg.get_help().unwrap().to_string().replace('|', "\\|");
    Row {
        heading: if arg.is_hide_set() {
            HIDDEN.to_owned()
        } else {
            format!("\n## {}\n", arg.get_help_heading().unwrap())
        },
        flag,
        rest: format!("{variable} | {default} | {help} |"),
        servers: vec![server.get_name().trim_start_matches("signaling-").to_owned()],
    }
}

fn reference() -> String {
    let mut rows: Vec<Row> = Vec::new();
    for server in servers() {
        for arg in server.get_arguments().filter(|arg| arg.get_id() != "help") {
            let new = row(&server, arg);
            match rows.iter_mut().find(|row| (&row.flag, &row.rest) == (&new.flag, &new.rest)) {
                Some(row) => row.servers.extend(new.servers),
                None => rows.push(new),
            }
        }
    }
    let mut text = HEAD.to_owned();
    rows.sort_by_key(|row| row.heading == HIDDEN);
    let mut headings: Vec<&str> = Vec::new();
    for row in &rows {
        if !headings.contains(&&*row.heading) {
            headings.push(&row.heading);
        }
    }
    for heading in headings {
        writeln!(text, "{heading}{TABLE}").unwrap();
        for row in rows.iter().filter(|row| row.heading == heading) {
            let servers = if row.servers.len() == 2 { "both" } else { &row.servers[0] };
            writeln!(text, "| {} | {servers} | {}", row.flag, row.rest).unwrap();
        }
    }
    text
}

#[test]
fn config_reference_matches_the_flags() {
    assert_document("docs/CONFIG.md", &reference(), "WRITE_CONFIG");
}

#[test]
fn help_fits_on_three_screens() {
    for mut server in servers() {
        let help = server.render_help().to_string();
        println!("{help}");
        assert!(help.lines().count() <= MAX_HELP_LINES, "{}: {} lines", server.get_name(), help.lines().count());
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

#[test]
fn flags_are_consistent_and_have_their_own_variables() {
    for server in servers() {
        server.clone().debug_assert();
        for arg in
            server.get_arguments().filter(|arg| !["check", "print_config", "help"].contains(&arg.get_id().as_str()))
        {
            let variable = format!("SIGNALING_{}", arg.get_long().unwrap().replace('-', "_").to_uppercase());
            assert_eq!(arg.get_env().and_then(|name| name.to_str()), Some(variable.as_str()));
        }
    }
}
