//! An invalid value stops the start, and the message names the flag.

use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::time::Duration;

use signaling_integration_tests::binaries;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

const NODE: &[&str] = &["signaling-node"];
const BALANCER: &[&str] = &["signaling-balancer"];
const SERVERS: &[&str] = &["signaling-node", "signaling-balancer"];
/// An address that this machine does not have, so a server that tries to listen there fails.
const ELSEWHERE: &str = "198.51.100.1:0";
/// Longer than a start takes.
const START_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn invalid_values_are_refused_with_their_flag() {
    let folder = tempfile::tempdir().unwrap();
    let long = "a".repeat(254);
    let cases: [(&[&str], &str, &[&str]); 41] = [
        (SERVERS, "--id", &["", "a b", "ä", &long]),
        (SERVERS, "--internal-listen", &["localhost", "127.0.0.1", "127.0.0.1:99999", "198.51.100.1:0"]),
        (SERVERS, "--discovery", &["", "nonsense", "ftp:somewhere", "file:"]),
        (SERVERS, "--discovery", &["static:", "static:a", "static:a=", "static:a=b", "static:a b=127.0.0.1:1"]),
        (SERVERS, "--discovery", &["static:a=127.0.0.1:1,a=127.0.0.1:2", "static:a=127.0.0.1:0"]),
        (SERVERS, "--discovery", &["dns:nodes", "dns:10.0.0.1:7900"]),
        (SERVERS, "--discovery", &["kubernetes:nodes", "kubernetes:Calls/nodes:internal"]),
        (SERVERS, "--mesh-secret-file", &["/nowhere", "/dev/zero"]),
        (SERVERS, "--max-message-bytes", &["0", "1023", "1048577", "-1", "many"]),
        (SERVERS, "--drain-ms", &["-1", "3600001", "1s"]),
        (SERVERS, "--accept-rate", &["0", "-1", "1000001", "many"]),
        (SERVERS, "--max-sockets", &["0", "-1", "many"]),
        (SERVERS, "--accept-rate-per-address", &["-1", "1000001", "many"]),
        (SERVERS, "--max-per-address", &["-1", "many"]),
        (SERVERS, "--max-handshakes", &["0", "-1", "many"]),
        (SERVERS, "--max-client-buffer-bytes", &["0", "-1", "many"]),
        (SERVERS, "--message-rate", &["", "-1", "many", "1/", "/1", "1/2/3"]),
        (SERVERS, "--handshake-ms", &["99", "60001", "5s"]),
        (SERVERS, "--heartbeat-ms", &["4999", "300001", "25s"]),
        (SERVERS, "--rate-classes", &["bots", "=1", "b c=1", "bots="]),
        (SERVERS, "--rate-classes", &["bots=-1", "bots=many", "bots=1/", "bots=1,guests"]),
        (SERVERS, "--client-address", &["proxy", "x-forwarded-for", "proxy-v2", "proxy-v2:"]),
        (SERVERS, "--client-address", &["proxy-v2:10.0.0.0/33", "proxy-v2:localhost"]),
        (SERVERS, "--allowed-origins", &["", "app.example", "https://app.example/", "*"]),
        (SERVERS, "--token-algorithm", &["none", "HS512", "hs256"]),
        (SERVERS, "--token-leeway-s", &["-1", "31", "10s"]),
        (SERVERS, "--tls-cert", &["/nowhere"]),
        (SERVERS, "--log-format", &["xml"]),
        (SERVERS, "--log", &["info,[broken"]),
        (NODE, "--public-listen", &["localhost", "127.0.0.1:99999", "198.51.100.1:0"]),
        (NODE, "--hold-ms", &["0", "1999", "655351", "20s"]),
        (NODE, "--hold-bytes", &["-1", "64M"]),
        (NODE, "--resume-ms", &["-1", "soon", "300001"]),
        (NODE, "--reassign-window-ms", &["-1", "3600001", "1s"]),
        (NODE, "--signal-scope", &["", "none"]),
        (NODE, "--turn-ttl-s", &["0", "604801", "1h"]),
        (NODE, "--ice-servers-file", &["/nowhere/at/all", "/dev/zero"]),
        (BALANCER, "--balancer-discovery", &["nonsense", "static:a"]),
        // 10 for want of --balancer-discovery.
        (BALANCER, "--unready-above-percent", &["-1", "1001", "10"]),
        (BALANCER, "--listen", &["8080", "127.0.0.1:99999", "198.51.100.1:0"]),
        (BALANCER, "--hold-ms", &["1"]),
    ];
    for (servers, flag, values) in cases {
        for server in servers {
            for value in values {
                refused(&folder, server, flag, value).await;
            }
        }
    }
}

#[tokio::test]
async fn remote_clients_without_tokens_need_allow_anonymous() {
    let folder = tempfile::tempdir().unwrap();
    for (server, flag) in SERVERS.iter().zip(["--public-listen", "--listen"]) {
        let message = refused(&folder, server, flag, ELSEWHERE).await;
        assert!(message.contains("--allow-anonymous") && message.contains("--token-key-file"), "{message}");
        let mut variables = variables(&folder, server);
        variables.push(("SIGNALING_ALLOW_ANONYMOUS".into(), "1".into()));
        let message = failure(server, &format!("{flag}={ELSEWHERE}"), &variables).await;
        assert!(!message.contains("--allow-anonymous") && message.contains("annot assign"), "{message}");
    }
}

#[tokio::test]
async fn internal_listener_beyond_loopback_needs_a_hash_seed() {
    let folder = tempfile::tempdir().unwrap();
    for server in SERVERS {
        let message = refused(&folder, server, "--internal-listen", ELSEWHERE).await;
        assert!(message.contains("--hash-seed-file") && message.contains("mesh-ctl secret"), "{message}");
        let mut variables = variables(&folder, server);
        let seed = folder.path().join("seed");
        std::fs::write(&seed, "5e".repeat(32)).unwrap();
        variables.push(("SIGNALING_HASH_SEED_FILE".into(), seed.display().to_string()));
        let message = failure(server, &format!("--internal-listen={ELSEWHERE}"), &variables).await;
        assert!(!message.contains("--hash-seed-file") && message.contains("annot assign"), "{message}");
    }
}

#[tokio::test]
async fn passphrase_is_refused_as_secret_and_hash_seed() {
    const PASSPHRASE: &str = "correct horse battery staple, again and again";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passphrase");
    std::fs::write(&file, PASSPHRASE).unwrap();
    for server in SERVERS {
        for flag in ["--mesh-secret-file", "--hash-seed-file"] {
            let message = refused(&folder, server, flag, file.to_str().unwrap()).await;
            assert!(message.contains("mesh-ctl secret") && !message.contains(PASSPHRASE), "{message}");
        }
    }
}

#[tokio::test]
async fn address_in_use_is_named_with_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (server, public) in SERVERS.iter().zip(["--public-listen", "--listen"]) {
        for flag in ["--internal-listen", public] {
            let message = refused(&folder, server, flag, &taken).await;
            assert!(message.contains(&taken) && message.contains("in use"), "{message}");
        }
    }
}

#[tokio::test]
async fn check_reports_invalid_settings_by_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    for server in SERVERS {
        let file = folder.path().join(format!("{server}.toml")).display().to_string();
        let keys = settings(&folder, server).map(|(key, value)| format!("{key} = '{value}'\n"));
        std::fs::write(&file, keys.concat()).unwrap();
        let (code, message) = run(server, &["--check", "--config", &file], &[]).await;
        assert_eq!(code, Some(0), "{server}: {message}");
        let absent = folder.path().join("absent").display().to_string();
        let nodes = format!("file:{absent}");
        for (flag, value) in [
            ("--mesh-secret-file", &*absent),
            ("--discovery", &*nodes),
            ("--drain-ms", "1s"),
            ("--token-issuer", "app"),
        ] {
            let (code, message) = run(server, &["--check", "--config", &file, flag, value], &[]).await;
            assert_eq!(code, Some(2), "{server} {flag}: {message}");
            assert!(message.contains(flag) || message.contains("--token-key-file"), "{message}");
        }
    }
}

/// Returns valid settings of a server by their keys.
fn settings(folder: &TempDir, server: &str) -> [(&'static str, String); 5] {
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "5e".repeat(32)).unwrap();
    [
        ("id", "server-0".into()),
        ("internal-listen", "127.0.0.1:0".into()),
        (if server == "signaling-node" { "public-listen" } else { "listen" }, "127.0.0.1:0".into()),
        ("discovery", "static:node-0=127.0.0.1:1".into()),
        ("mesh-secret-file", secret.display().to_string()),
    ]
}

/// Returns valid settings of a server as environment variables, which flags override.
fn variables(folder: &TempDir, server: &str) -> Vec<(String, String)> {
    let name = |key: &str| format!("SIGNALING_{}", key.replace('-', "_").to_uppercase());
    settings(folder, server).map(|(key, value)| (name(key), value)).to_vec()
}

/// Starts a server with one value changed, which must be refused with its flag named. Returns the
/// message.
async fn refused(folder: &TempDir, server: &str, flag: &str, value: &str) -> String {
    let message = failure(server, &format!("{flag}={value}"), &variables(folder, server)).await;
    assert!(message.contains(flag), "{server} {flag}={value}: the message does not name the flag: {message}");
    message
}

/// Returns the message of a start that fails.
async fn failure(server: &str, argument: &str, variables: &[(String, String)]) -> String {
    let (code, message) = run(server, &[argument], variables).await;
    assert!(code.is_some_and(|code| code != 0), "{server} {argument}: {code:?}: {message}");
    assert!(!message.contains("panicked"), "{server} {argument}: {message}");
    message
}

/// Runs a server that must not start. Returns its exit code and errors.
async fn run(server: &str, arguments: &[&str], variables: &[(String, String)]) -> (Option<i32>, String) {
    let mut command = Command::new(binaries().join(server));
    command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = timeout(START_TIMEOUT, command.output()).await;
    let Output { status, stderr, .. } = ended.unwrap_or_else(|_| panic!("{server} {arguments:?} starts")).unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}
