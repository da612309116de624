//! Settings from a file, the command line and the environment of this process.

use clap::Parser;
use clap::builder::FalseyValueParser;
use tempfile::NamedTempFile;

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    file: ConfigFileArgs,
    #[arg(long)]
    id: String,
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(..=100), help_heading = "Times")]
    hold_ms: u64,
    /// `PATH` is set wherever tests run.
    #[arg(long, env = "PATH")]
    path: Option<String>,
    #[arg(long, value_parser = FalseyValueParser::new())]
    demo: bool,
    #[arg(long, value_delimiter = ',')]
    urls: Vec<String>,
    #[arg(long, requires = "name")]
    key: Option<String>,
    #[arg(long, requires = "key")]
    name: Option<String>,
    #[arg(long, hide_env_values = true)]
    password: Option<String>,
}

fn matches(text: &str, flags: &[&str]) -> Result<ArgMatches, LoadError> {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let mut arguments: Vec<OsString> = vec!["server".into(), "--config".into(), file.path().into()];
    arguments.extend(flags.iter().map(OsString::from));
    parse(&Cli::command(), arguments)
}

fn settled(text: &str, flags: &[&str]) -> Cli {
    Cli::from_arg_matches(&matches(text, flags).unwrap()).unwrap()
}

fn refused(text: &str) -> String {
    match matches(text, &[]).unwrap_err() {
        LoadError::File(error) => error.to_string(),
        LoadError::Clap(error) => format!("clap: {error}"),
    }
}

#[test]
fn keys_are_flags_without_their_dashes() {
    let text = "id = 'a'\nhold-ms = 7\ndemo = true\nurls = ['turn:a', 'turn:b']\nkey = 'k'\nname = 'n'\n";
    let cli = settled(text, &[]);
    assert_eq!((cli.id.as_str(), cli.hold_ms, cli.demo), ("a", 7, true));
    assert_eq!(cli.urls, ["turn:a", "turn:b"]);
    assert_eq!((cli.key.as_deref(), cli.name.as_deref()), (Some("k"), Some("n")));
    assert!(!settled("id = 'a'\ndemo = false\nurls = []", &[]).demo);
}

#[test]
fn flags_and_environment_win_over_the_file() {
    let text = "id = 'a'\nhold-ms = 7\npath = 'from the file'\nurls = ['x']";
    let cli = settled(text, &["--hold-ms=9", "--id", "b", "--urls=y"]);
    assert_eq!((cli.id.as_str(), cli.hold_ms, cli.urls), ("b", 9, vec!["y".to_owned()]));
    assert_eq!(cli.path, std::env::var("PATH").ok());
}

#[test]
fn flag_that_is_no_setting_is_an_unknown_key() {
    for key in ["config", "check", "print-config", "help", "zzz"] {
        let message = refused(&format!("id = 'a'\n{key} = true"));
        assert!(message.contains(&format!("unknown key \"{key}\"")), "{message}");
    }
}

#[test]
fn bad_value_is_refused_with_file_and_key() {
    for (line, part) in [
        ("hold-ms = 101", "hold-ms: invalid value '101'"),
        ("hold-ms = 1.5", "hold-ms must be a string or a whole number"),
        ("hold-ms = [1]", "hold-ms must be"),
        ("demo = 1", "demo must be true or false"),
        ("urls = [true]", "urls must be a list"),
        ("[limits]", "unknown key \"limits\""),
        ("hold-ms = ", "line 2: "),
        ("key = 'k'", "clap: error: the following required arguments were not provided"),
    ] {
        let message = refused(&format!("id = 'a'\n{line}"));
        assert!(message.contains(part), "{line}: {message}");
    }
}

#[test]
fn broken_line_is_not_quoted() {
    let message = refused("id = 'a'\npassword = 'hunter2");
    assert!(message.contains("line 2") && !message.contains("hunter2"), "{message}");
}

#[test]
fn printed_settings_are_a_file_with_equal_settings() {
    let text = "id = '007'\nhold-ms = 7\ndemo = true\nurls = ['a\"b', '5']\npath = 'x'";
    let first = printed(&Cli::command(), &matches(text, &[]).unwrap());
    assert_eq!(printed(&Cli::command(), &matches(&first, &[]).unwrap()), first);
    assert!(first.contains("id = \"007\"\n") && first.contains("# Times\nhold-ms = 7\n"), "{first}");
    assert!(!first.contains("key") && !first.contains("config"), "{first}");
    let defaults = printed(&Cli::command(), &matches("id = 'a'", &[]).unwrap());
    assert!(defaults.contains("hold-ms = 20\n") && defaults.contains("demo = false\n"), "{defaults}");
}

#[test]
fn password_is_not_printed() {
    let text = printed(&Cli::command(), &matches("id = 'a'\npassword = 'hunter2'", &[]).unwrap());
    assert!(text.contains("id = \"a\"\n") && !text.contains("password") && !text.contains("hunter2"), "{text}");
}
