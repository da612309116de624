//! An invalid value stops the start, and the message names the flag.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use signaling_integration_tests::binaries;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

const SERVERS: [&str; 2] = ["signaling-node", "signaling-balancer"];
/// Contents of secret files that are refused.
const SHORT: &str = "too-short";
const SPACED: &str = "a secret with spaces in it";
/// Longer than a start takes.
const START_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn invalid_values_are_refused_and_secrets_not_quoted() {
    let start = Start::new();
    let (short, absent) = (start.file("short", SHORT), start.folder.path().join("absent"));
    let (spaced, empty) = (start.file("spaced", SPACED), start.file("empty", "\n"));
    let endless = PathBuf::from("/dev/zero");
    let files = [&short, &absent, &spaced, &empty, &endless].map(|path| path.display().to_string());
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let long = "a".repeat(254);
    let cases: [(&str, &[&str]); 26] = [
        ("--id", &["", "a b", "ä", &long]),
        ("--internal-listen", &["localhost", "127.0.0.1", "127.0.0.1:99999", "198.51.100.1:0"]),
        ("--discovery", &["", "nonsense", "ftp:somewhere", "file:"]),
        ("--discovery", &["static:", "static:a", "static:a=", "static:a=b", "static:a b=127.0.0.1:1"]),
        ("--discovery", &["static:a=127.0.0.1:1,a=127.0.0.1:2", "static:a=127.0.0.1:0"]),
        ("--discovery", &["dns:nodes", "dns:10.0.0.1:7900", "kubernetes:nodes", "kubernetes:Calls/nodes:internal"]),
        ("--mesh-secret-file", &files),
        ("--admin-token-file", &files),
        ("--hash-seed-file", &files),
        ("--max-message-bytes", &["0", "1023", "1048577", "-1", "many"]),
        ("--drain-ms", &["-1", "3600001", "1s"]),
        ("--accept-rate", &["0", "-1", "1000001", "many"]),
        ("--max-sockets", &["0", "-1", "many"]),
        ("--accept-rate-per-address", &["-1", "1000001", "many"]),
        ("--max-per-address", &["-1", "many"]),
        ("--max-handshakes", &["0", "-1", "many"]),
        ("--max-client-buffer-bytes", &["0", "-1", "many"]),
        ("--message-rate", &["", "-1", "many", "1/", "/1", "1/2/3"]),
        ("--handshake-ms", &["99", "60001", "5s"]),
        ("--heartbeat-ms", &["4999", "300001", "25s"]),
        ("--rate-classes", &["bots", "=1", "b c=1", "bots=", "bots=-1", "bots=many", "bots=1/", "bots=1,guests"]),
        ("--client-address", &["proxy", "x-forwarded-for", "proxy-v2", "proxy-v2:"]),
        ("--client-address", &["proxy-v2:10.0.0.0/33", "proxy-v2:localhost"]),
        ("--allowed-origins", &["", "app.example", "https://app.example/", "*"]),
        ("--token-algorithm", &["none", "HS512", "hs256"]),
        ("--token-leeway-s", &["-1", "31", "10s"]),
    ];
    let single = [("--tls-cert", "/nowhere"), ("--log-format", "xml"), ("--log", "info,[broken")];
    let cases = cases.iter().flat_map(|(flag, values)| values.iter().map(|value| (*flag, *value)));
    for (flag, value) in cases.chain(single) {
        for server in SERVERS {
            let message = refused(&start, server, flag, value).await;
            assert!(!flag.ends_with("secret-file") || message.contains(value), "{server} {flag}: {message}");
            assert!(!message.contains(SHORT) && !message.contains(SPACED), "a secret is quoted: {message}");
        }
    }
}

#[tokio::test]
async fn invalid_values_are_refused_by_the_server_of_the_flag() {
    let start = Start::new();
    for (server, flag, values) in [
        ("signaling-node", "--public-listen", &["localhost", "127.0.0.1:99999", "198.51.100.1:0"][..]),
        ("signaling-node", "--hold-ms", &["-1", "655351", "20s"]),
        ("signaling-node", "--hold-bytes", &["-1", "64M"]),
        ("signaling-node", "--resume-ms", &["-1", "soon", "300001"]),
        ("signaling-node", "--reassign-window-ms", &["-1", "3600001", "1s"]),
        ("signaling-balancer", "--balancer-discovery", &["nonsense", "static:a"]),
        // 10 for want of --balancer-discovery.
        ("signaling-balancer", "--unready-above-percent", &["-1", "1001", "10"]),
        ("signaling-node", "--signal-scope", &["", "none"]),
        ("signaling-node", "--turn-ttl-s", &["0", "604801", "1h"]),
        ("signaling-node", "--ice-servers-file", &["/nowhere/at/all", "/dev/zero"]),
        ("signaling-balancer", "--listen", &["8080", "127.0.0.1:99999", "198.51.100.1:0"]),
        ("signaling-balancer", "--hold-ms", &["1"]),
        ("signaling-balancer", "--resume-ms", &["1"]),
        ("signaling-balancer", "--no-such-flag", &["1"]),
    ] {
        for value in values {
            refused(&start, server, flag, value).await;
        }
    }
}

#[tokio::test]
async fn remote_clients_without_tokens_need_allow_anonymous() {
    let start = Start::new();
    // An address that this machine does not have, so a server that tries to listen there fails.
    const ELSEWHERE: &str = "198.51.100.1:0";
    for (server, flag) in SERVERS.into_iter().zip(["--public-listen", "--listen"]) {
        let message = refused(&start, server, flag, ELSEWHERE).await;
        assert!(message.contains("--allow-anonymous") && message.contains("--token-key-file"), "{message}");
        let arguments = start.arguments_with(server, flag, ELSEWHERE);
        let message = failure(server, &arguments, &[("SIGNALING_ALLOW_ANONYMOUS", "1")]).await;
        assert!(!message.contains("--allow-anonymous") && message.contains("annot assign"), "{message}");
    }
}

#[tokio::test]
async fn address_in_use_is_named_with_its_flag() {
    let start = Start::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (server, public) in SERVERS.into_iter().zip(["--public-listen", "--listen"]) {
        for flag in ["--internal-listen", public] {
            let message = refused(&start, server, flag, &taken).await;
            assert!(message.contains(&taken) && message.contains("in use"), "{message}");
        }
    }
}

#[tokio::test]
async fn missing_flag_is_named_in_the_error() {
    let start = Start::new();
    for server in SERVERS {
        for flag in ["--id", "--discovery", "--mesh-secret-file"] {
            let message = failure(server, &start.arguments_without(server, flag), &[]).await;
            assert!(message.contains(flag), "{server} without {flag}: {message}");
        }
    }
}

#[tokio::test]
async fn bad_variable_is_refused_by_its_flag() {
    let start = Start::new();
    for server in SERVERS {
        let message = failure(server, &start.arguments(server), &[("SIGNALING_ACCEPT_RATE", "0")]).await;
        assert!(message.contains("--accept-rate"), "{message}");
    }
}

#[tokio::test]
async fn missing_kubeconfig_stops_the_start() {
    let start = Start::new();
    let absent = start.folder.path().join("absent").display().to_string();
    let nowhere = [("KUBECONFIG", &*absent), ("HOME", &*absent), ("KUBERNETES_SERVICE_HOST", "")];
    for server in SERVERS {
        let arguments = start.arguments_with(server, "--discovery", "kubernetes:calls/nodes:internal");
        let message = failure(server, &arguments, &nowhere).await;
        assert!(message.contains("--discovery") && message.contains("set KUBECONFIG"), "{message}");
    }
}

#[tokio::test]
async fn check_reports_invalid_settings_by_exit_code() {
    let start = Start::new();
    for server in SERVERS {
        let file = start.config(server, "").display().to_string();
        let (code, _, message) = run(server, &["--check", "--config", &file], &[]).await;
        assert_eq!(code, Some(0), "{server}: {message}");
        let absent = start.folder.path().join("absent").display().to_string();
        let nodes = format!("file:{absent}");
        for (flag, value) in [
            ("--mesh-secret-file", &*absent),
            ("--discovery", &*nodes),
            ("--drain-ms", "1s"),
            ("--token-issuer", "app"),
        ] {
            let (code, _, message) = run(server, &["--check", "--config", &file, flag, value], &[]).await;
            assert_eq!(code, Some(2), "{server} {flag}: {message}");
            assert!(message.contains(flag) || message.contains("--token-key-file"), "{message}");
        }
    }
}

#[tokio::test]
async fn config_file_with_an_unknown_key_stops_the_start() {
    let start = Start::new();
    for server in SERVERS {
        let file = start.config(server, "max-socket = 1\n").display().to_string();
        let (code, _, message) = run(server, &["--config", &file], &[]).await;
        assert_eq!(code, Some(2), "{server}: {message}");
        for part in [&*file, "\"max-socket\"", "\"max-sockets\""] {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[tokio::test]
async fn printed_config_is_a_file_and_hides_the_stores_password() {
    let start = Start::new();
    let key = "room-store = \"redis://:hunter2@redis:6379\"\n";
    let file = start.config("signaling-node", key).display().to_string();
    let (code, printed, message) = run("signaling-node", &["--print-config", "--config", &file], &[]).await;
    assert_eq!(code, Some(0), "{message}");
    assert!(printed.contains("room-store = \"redis://***@redis:6379\"") && !printed.contains("hunter2"), "{printed}");
    let again = start.file("again.toml", &printed).display().to_string();
    let (code, second, message) = run("signaling-node", &["--check", "--print-config", "--config", &again], &[]).await;
    assert_eq!((code, second), (Some(0), printed), "{message}");
}

/// The valid arguments of a start.
struct Start {
    folder: TempDir,
}

impl Start {
    fn new() -> Self {
        let start = Self { folder: tempfile::tempdir().unwrap() };
        start.file("secret", "a-mesh-secret-of-some-length\n");
        start
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A file with the settings of [`Self::arguments`] and these.
    fn config(&self, server: &str, more: &str) -> PathBuf {
        let keys = self.arguments(server);
        let keys = keys.iter().map(|(flag, value)| format!("{} = '{value}'\n", flag.trim_start_matches("--")));
        self.file(&format!("{server}.toml"), &(keys.collect::<String>() + more))
    }

    fn arguments(&self, server: &str) -> Vec<(&'static str, String)> {
        let public = if server == "signaling-node" { "--public-listen" } else { "--listen" };
        let secret = self.folder.path().join("secret").display().to_string();
        vec![
            ("--id", "server-0".into()),
            ("--internal-listen", "127.0.0.1:0".into()),
            (public, "127.0.0.1:0".into()),
            ("--discovery", "static:node-0=127.0.0.1:1".into()),
            ("--mesh-secret-file", secret),
        ]
    }

    fn arguments_without(&self, server: &str, flag: &str) -> Vec<(&'static str, String)> {
        self.arguments(server).into_iter().filter(|(name, _)| *name != flag).collect()
    }

    fn arguments_with(&self, server: &str, flag: &'static str, value: &str) -> Vec<(&'static str, String)> {
        let mut arguments = self.arguments_without(server, flag);
        arguments.push((flag, value.to_owned()));
        arguments
    }
}

/// Starts a server with one value changed, which must be refused with its flag named. Returns the
/// message.
async fn refused(start: &Start, server: &str, flag: &'static str, value: &str) -> String {
    let message = failure(server, &start.arguments_with(server, flag, value), &[]).await;
    assert!(message.contains(flag), "{server} {flag}={value}: the message does not name the flag: {message}");
    message
}

async fn failure(server: &str, arguments: &[(&str, String)], variables: &[(&str, &str)]) -> String {
    let arguments: Vec<_> = arguments.iter().map(|(flag, value)| format!("{flag}={value}")).collect();
    let (code, _, message) = run(server, &arguments, variables).await;
    assert!(code.is_some_and(|code| code != 0), "{server} {arguments:?}: {code:?}: {message}");
    assert!(!message.contains("panicked"), "{server} {arguments:?}: {message}");
    message
}

/// Runs a server that must not start. Returns its exit code, output and errors.
async fn run<A: AsRef<OsStr> + Debug>(
    server: &str,
    arguments: &[A],
    variables: &[(&str, &str)],
) -> (Option<i32>, String, String) {
    let mut command = Command::new(binaries().join(server));
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null()).kill_on_drop(true);
    let ended = timeout(START_TIMEOUT, command.output()).await;
    let Output { status, stdout, stderr } = ended.unwrap_or_else(|_| panic!("{server} {arguments:?} starts")).unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}
