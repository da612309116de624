//! First exchanges of the READMEs, and the programs in `examples`, run as they are.

use std::path::Path;
use std::time::Duration;

use signaling_integration_tests::{LineProgram, TestMesh, binaries, get, program, repository};
use tokio::process::Command;
use tokio::time::timeout;

#[allow(dead_code)]
#[path = "../../../crates/client/examples/two_peers.rs"]
mod two_peers;

const MAX_LINES: usize = 19;
const MESH_OF_THE_README: &str = "ws://127.0.0.1:8080";
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn javascript_of_the_readmes_runs_unchanged() {
    let Some(node) = program(&["node"], "nodejs") else { return };
    let mesh = TestMesh::start().await;
    for readme in ["README.md", "crates/client/web/README.md"] {
        let code = first_block(readme, "js");
        assert!(code.contains(MESH_OF_THE_README));
        let code = code.replace(MESH_OF_THE_README, &mesh.url());
        for package in [None, Some("commonjs"), Some("module")] {
            run_in_package(&node, &mesh, package, readme, &code).await;
        }
    }
}

/// Runs code of a README in a folder with this type of package. `None`: it has no `package.json`.
async fn run_in_package(node: &Path, mesh: &TestMesh, package: Option<&str>, readme: &str, code: &str) {
    let dir = tempfile::tempdir().unwrap();
    let module = get(&format!("http://{}", mesh.address()), "/signaling-mesh.mjs").await.body;
    std::fs::write(dir.path().join("signaling-mesh.mjs"), module).unwrap();
    if let Some(package) = package {
        std::fs::write(dir.path().join("package.json"), format!(r#"{{"type":"{package}"}}"#)).unwrap();
    }
    let file = dir.path().join("exchange.mjs");
    std::fs::write(&file, code).unwrap();

    let run = Command::new(node).arg("--experimental-websocket").arg(file).kill_on_drop(true).output();
    let run = timeout(EXCHANGE_TIMEOUT, run).await.expect("it does not end").unwrap();

    let output = String::from_utf8_lossy(&run.stdout);
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    let complaints = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{readme}: {complaints}");
    assert_eq!(lines, ["alice says hello", "bob has it", "bob says hello yourself"], "{readme}: {complaints}");
}

#[tokio::test]
async fn rust_of_the_client_readme_is_its_example() {
    let example = std::fs::read_to_string(repository().join("crates/client/examples/two_peers.rs")).unwrap();
    let (_header, code) = example.split_once("\n\n").unwrap();
    assert_eq!(first_block("crates/client/README.md", "rust"), code);
    let mesh = TestMesh::start().await;
    let output = timeout(EXCHANGE_TIMEOUT, two_peers::greet(&mesh.url())).await.expect("it does not end").unwrap();
    assert_eq!(output, "alice says hello");
}

#[tokio::test]
async fn example_bot_answers_the_example_chat() {
    let Some(node) = program(&["node"], "nodejs") else { return };
    let mesh = TestMesh::with_options(|options| options.nodes = 1).await;
    let mut bot = Command::new(binaries().join("examples/echo-bot"));
    let mut bot = LineProgram::start(bot.args(["kitchen", &mesh.url()]));
    find_line(&mut bot, "echo-bot is in kitchen").await;
    let script = repository().join("examples/room.mjs");
    let url = format!("{}/v1/connect", mesh.url());
    let mut chat = Command::new(node);
    let chat = chat.arg("--experimental-websocket").arg(script).args(["alice", "kitchen", &url]);
    let mut chat = LineProgram::start(chat);
    find_line(&mut chat, "-- in kitchen: echo-bot, alice").await;
    chat.write("hello").await;
    find_line(&mut chat, "echo-bot: hello").await;
}

/// Reads lines of a program until this one.
async fn find_line(program: &mut LineProgram, wanted: &str) {
    let find = async { while program.line().await != wanted {} };
    timeout(EXCHANGE_TIMEOUT, find).await.expect(wanted);
}

/// The first block of code in this language, which must be short.
fn first_block(readme: &str, language: &str) -> String {
    let text = std::fs::read_to_string(repository().join(readme)).unwrap();
    let (_, rest) = text.split_once(&format!("```{language}\n")).unwrap();
    let code = rest.split("```").next().unwrap().to_owned();
    assert!(code.lines().count() <= MAX_LINES, "{readme}: {} lines", code.lines().count());
    code
}
