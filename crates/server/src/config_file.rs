//! Settings of a server from its command line, environment and configuration file.
//! The file is a flat TOML table. A key is a flag without `--`, and stands for that flag in front
//! of the command line, so that clap checks both alike. Flags and environment variables win over
//! keys. The binaries' `main` calls [`load`].

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, CommandFactory, FromArgMatches};
use toml::{Table, Value};

use crate::ConfigError;
use crate::reloadable_file::ReloadableFile;

/// Flags that are no settings, so that they are no keys of the file.
const NO_KEYS: [&str; 4] = ["config", "check", "print-config", "help"];
const AFTER_HELP: &str = "Each setting is also an environment variable: --drain-ms is SIGNALING_DRAIN_MS.";
/// Exit code for settings that cannot be used; clap exits with it too.
const INVALID: u8 = 2;

/// Flags about the settings as a whole.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Configuration")]
pub struct ConfigFileArgs {
    /// TOML file with settings; each key is a flag without `--`. Flags and environment variables
    /// override keys
    #[arg(long, env = "SIGNALING_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Check all settings and the files that they name, and exit: with 0 if they are valid, else
    /// with 2
    #[arg(long)]
    pub check: bool,

    /// Print the settings in effect, including defaults, as a configuration file, and exit
    ///
    /// Only `--check` reads the files that the settings name.
    #[arg(long)]
    pub print_config: bool,
}

/// Returns the command line of `A` with short help only, at most 100 columns wide.
pub fn command<A: CommandFactory>() -> Command {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    let command = A::command().disable_help_flag(true).arg(help.help_heading("Configuration"));
    command.mut_args(|arg| arg.hide_env(true)).max_term_width(100).after_help(AFTER_HELP)
}

/// Returns this process's settings of type `A`, with [`ConfigFileArgs`], converted by `check`.
///
/// # Errors
/// Returns the exit code of a process that must end, and prints the reason or the requested output:
/// 2 for invalid settings; 0 after `--check`, `--print-config`, `--help` or `--version`.
pub fn load<A, C>(check: impl FnOnce(A) -> Result<C, ConfigError>) -> Result<C, ExitCode>
where
    A: CommandFactory + FromArgMatches,
{
    let command = command::<A>();
    let invalid = |error: &dyn std::fmt::Display| {
        eprintln!("{}: {error}", command.get_name());
        ExitCode::from(INVALID)
    };
    let matches = parse(&command, std::env::args_os().collect()).map_err(|error| match error {
        LoadError::File(error) => invalid(&error),
        LoadError::Clap(error) => {
            // Nothing is left to do if the terminal is gone.
            let _ = error.print();
            if error.use_stderr() { ExitCode::from(INVALID) } else { ExitCode::SUCCESS }
        }
    })?;
    let args = A::from_arg_matches(&matches).map_err(|error| invalid(&error))?;
    let (only_check, only_print) = (matches.get_flag("check"), matches.get_flag("print_config"));
    if only_print {
        print!("{}", printed(&command, &matches));
        if !only_check {
            return Err(ExitCode::SUCCESS);
        }
    }
    let config = check(args).map_err(|error| invalid(&error))?;
    if only_check { Err(ExitCode::SUCCESS) } else { Ok(config) }
}

#[derive(Debug)]
enum LoadError {
    /// Names the file and what is wrong in it.
    File(ConfigError),
    Clap(clap::Error),
}

fn parse(command: &Command, mut arguments: Vec<OsString>) -> Result<ArgMatches, LoadError> {
    // Finds the file, and the flags that win over it, before required flags are checked.
    let lenient = optional(command).ignore_errors(true);
    // An error means `--help` or `--version`, which the full command line prints.
    let given = lenient.try_get_matches_from(&arguments).ok();
    let path = given.as_ref().and_then(|given| given.get_one::<PathBuf>("config"));
    let Some((given, path)) = given.as_ref().zip(path) else {
        return command.clone().try_get_matches_from(arguments).map_err(LoadError::Clap);
    };
    let from_file = file_flags(command, given, path).map_err(LoadError::File)?;
    arguments.splice(1..1, from_file.iter().map(|(_, flag)| flag.into()));
    command.clone().try_get_matches_from(arguments).map_err(|error| match key_of(&error) {
        Some(key) if from_file.iter().any(|(from_file, _)| *from_file == key) => {
            let text = error.render().to_string();
            LoadError::File(invalid_file(path, &format!("{key}: {}", text.trim_start_matches("error: ").trim_end())))
        }
        _ => LoadError::Clap(error),
    })
}

fn optional(command: &Command) -> Command {
    command.clone().mut_args(|arg| arg.required(false))
}

fn invalid_file(path: &Path, why: &str) -> ConfigError {
    ConfigError { flag: "--config", why: format!("{}: {why}", path.display()) }
}

/// Returns the flag that a value was refused for, without `--`.
fn key_of(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(arg) => arg.split_whitespace().next()?.strip_prefix("--").map(str::to_owned),
        _ => None,
    }
}

/// Returns keys of the file that neither command line nor environment sets, each with its flag.
fn file_flags(command: &Command, given: &ArgMatches, path: &Path) -> Result<Vec<(String, String)>, ConfigError> {
    let file = ReloadableFile::open("--config", path)?;
    let text = file.parsed(|content| str::from_utf8(content).map(str::to_owned))?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        // Not the line itself, which may hold a password.
        let line = error.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.split('\n').count());
        invalid_file(path, &format!("line {line}: {}", error.message()))
    })?;
    let mut flags = Vec::new();
    for (key, value) in table {
        let Some(arg) = settings(command).find(|arg| arg.get_long() == Some(key.as_str())) else {
            let nearest =
                nearest(command, &key).map(|key| format!("; the nearest key is \"{key}\"")).unwrap_or_default();
            return Err(invalid_file(path, &format!("unknown key \"{key}\"{nearest}")));
        };
        let flag =
            as_flag(arg, &key, &value).ok_or_else(|| invalid_file(path, &format!("{key} must be {}", wanted(arg))))?;
        let wins = given.value_source(arg.get_id().as_str());
        if !matches!(wins, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            flags.extend(flag.into_iter().map(|flag| (key.clone(), flag)));
        }
    }
    Ok(flags)
}

fn settings(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| arg.get_long().is_some_and(|key| !NO_KEYS.contains(&key)))
}

fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

fn wanted(arg: &Arg) -> &'static str {
    match (is_switch(arg), arg.get_value_delimiter()) {
        (true, _) => "true or false",
        (false, Some(_)) => "a list of strings",
        (false, None) => "a string or a whole number",
    }
}

/// Returns a key as a flag, none for `false` or an empty list; `None` if its value cannot be one.
fn as_flag(arg: &Arg, key: &str, value: &Value) -> Option<Vec<String>> {
    let single = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        _ => None,
    };
    match (is_switch(arg), arg.get_value_delimiter(), value) {
        (true, _, Value::Boolean(on)) => Some(on.then(|| format!("--{key}")).into_iter().collect()),
        (true, ..) => None,
        (false, Some(_), Value::Array(values)) if values.is_empty() => Some(Vec::new()),
        (false, Some(delimiter), Value::Array(values)) => {
            let values: Option<Vec<_>> = values.iter().map(single).collect();
            Some(vec![format!("--{key}={}", values?.join(&delimiter.to_string()))])
        }
        (false, _, value) => Some(vec![format!("--{key}={}", single(value)?)]),
    }
}

fn nearest(command: &Command, key: &str) -> Option<String> {
    let error = optional(command).try_get_matches_from(["server".to_owned(), format!("--{key}")]).err()?;
    let ContextValue::String(nearest) = error.get(ContextKind::SuggestedArg)? else { return None };
    let nearest = nearest.trim_start_matches("--");
    settings(command).any(|arg| arg.get_long() == Some(nearest)).then(|| nearest.to_owned())
}

/// Writes the settings in effect as a configuration file, a comment line before each group.
fn printed(command: &Command, matches: &ArgMatches) -> String {
    let mut groups: Vec<(&str, String)> = Vec::new();
    // The value of a setting with `hide_env_values` may be a password.
    for arg in settings(command).filter(|arg| !arg.is_hide_env_values_set()) {
        let id = arg.get_id().as_str();
        let heading = arg.get_help_heading().unwrap_or("Options");
        let at = groups.iter().position(|(group, _)| *group == heading).unwrap_or_else(|| {
            groups.push((heading, String::new()));
            groups.len() - 1
        });
        let value = if is_switch(arg) { Some(Value::Boolean(matches.get_flag(id))) } else { value_of(arg, matches) };
        if let (Some(value), Some(key), Some((_, lines))) = (value, arg.get_long(), groups.get_mut(at)) {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{key} = {value}");
        }
    }
    let groups = groups.iter().filter(|(_, lines)| !lines.is_empty());
    groups.map(|(heading, lines)| format!("# {heading}\n{lines}")).collect::<Vec<_>>().join("\n")
}

fn value_of(arg: &Arg, matches: &ArgMatches) -> Option<Value> {
    let mut values = matches.get_raw(arg.get_id().as_str())?.map(|value| {
        let value = value.to_string_lossy();
        match value.parse::<i64>() {
            Ok(number) if number.to_string() == value => Value::Integer(number),
            _ => Value::String(value.into_owned()),
        }
    });
    if arg.get_value_delimiter().is_some() { Some(Value::Array(values.collect())) } else { values.next() }
}

#[cfg(test)]
mod tests;
