//! The commands of docs/JOURNAL.md for readers print what the mesh has.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::{Value, json};
use signaling_integration_tests::redis::Server;
use signaling_integration_tests::room_client::SeatStatus;
use signaling_integration_tests::{
    RoomClient, TestMesh, admin, eventually, npm, operator, program, python, repository,
};
use tokio::process::Command;
use tokio::time::timeout;

/// `package.json` with fixed versions of the package `redis` and of what it needs.
const PACKAGES: &str = include_str!("journal_readers/package.json");
/// The server of the document, which the test replaces.
const SERVER_OF_THE_DOCUMENT: &str = "redis://10.0.0.5";
/// Two members, then the queue.
const CLIENTS: [&str; 4] = ["alice", "anna", "dora", "bob"];
const READ_TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn readers_commands_print_what_the_mesh_has() {
    let Some(server) = Server::start() else { return };
    let mesh = TestMesh::with_options(|options| {
        (options.nodes, options.balancers) = (3, 1);
        options.node_args = vec![format!("--room-journal={}", server.url())];
    })
    .await;
    let clients = fill(&mesh).await;
    let is_written = async || {
        let is_registered = !server.cli(&["hget", "{sig}:registry", "alice"]).is_empty();
        is_registered && server.cli(&["zrank", "sig:{standup}:waiting", "bob"]) == "1"
    };
    eventually("the journal has the room and its clients", is_written).await;

    let room: Value = admin(&mesh.node_internal(0), "GET", "rooms/standup").await;
    let members: Vec<_> = room["members"].as_array().unwrap().iter().collect();
    let names: Vec<_> = members.iter().map(|member| text(&member["client_id"])).collect();
    let all_data: Vec<_> = members.iter().map(|member| member["data"].to_string()).collect();
    let SeatStatus::Waiting { ahead, .. } = clients[3].room("standup").seat else { panic!("bob waits") };
    let client: Value = admin(&mesh.node_internal(0), "GET", "clients/alice").await;
    let (ahead, node) = (ahead.to_string(), text(&client["at"]["node"]));

    let answers = [
        ("members of a room, with their data", [names.clone(), all_data.clone()].concat()),
        ("members that are alive", names.clone()),
        ("number of members; of waiting clients", vec![room["count"].to_string(), room["waiting"].to_string()]),
        ("number of clients ahead of bob", vec![ahead.clone()]),
        ("process that serves alice", vec![node.clone()]),
        ("rooms", vec![text(&room["room"])]),
    ];
    let answers = answers.map(|(question, lines)| (question.to_owned(), sorted(lines)));
    assert_eq!(answers_of_the_table(&server), answers);

    let lines_of = |line: fn(&str) -> String, last: &str| {
        sorted(names.iter().map(|name| line(name)).chain([last.to_owned()]).collect())
    };
    if let Some(cli) = program(&["redis-cli", "valkey-cli"], "redis-tools") {
        // The document has the name of Redis.
        let folder = tempfile::tempdir().unwrap();
        symlink(cli, folder.path().join("redis-cli")).unwrap();
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let printed = read(Command::new("sh").arg("-euc").arg(block("sh", &server)).env("PATH", path)).await;
        assert_eq!(printed, sorted([names.clone(), all_data].concat()));
    }
    if let Some(python) = python("redis", "python3-redis").await {
        let printed = read(Command::new(python).arg("-c").arg(block("python", &server))).await;
        assert_eq!(printed, lines_of(|name| format!("{name} {{'name': '{name}'}}"), &ahead));
    }
    if let Some(folder) = npm::install("journal-readers", PACKAGES, |_| {}) {
        let script = folder.join("reader.mjs");
        fs::write(&script, block("js", &server)).unwrap();
        let printed = read(Command::new("node").arg(script)).await;
        assert_eq!(printed, lines_of(|name| format!("{name} {{ name: '{name}' }}"), &node));
    }
}

async fn fill(mesh: &TestMesh) -> Vec<RoomClient> {
    let body = Some(json!({ "capacity": 2 }));
    let (status, answer) = operator(&mesh.node_internal(0), "PUT", "rooms/standup/capacity", body).await;
    assert_eq!(status, 200, "{answer}");
    let mut clients = Vec::new();
    for id in CLIENTS {
        let mut client = RoomClient::connect(&mesh.url(), id).await;
        client.join("standup").await;
        clients.push(client);
    }
    clients
}

fn document() -> String {
    fs::read_to_string(repository().join("docs/JOURNAL.md")).unwrap()
}

/// Returns the only block of code in this language, with the address of the server.
fn block(language: &str, server: &Server) -> String {
    let document = document();
    let blocks: Vec<_> = document.split(&format!("```{language}\n")).skip(1).collect();
    let [block] = blocks[..] else { panic!("{} blocks of {language}", blocks.len()) };
    let code = block.split("```").next().unwrap();
    assert!(code.contains(SERVER_OF_THE_DOCUMENT), "{code}");
    code.replace(SERVER_OF_THE_DOCUMENT, &server.url())
}

/// Runs the commands of the document's table. Returns each question with the lines that answer it.
fn answers_of_the_table(server: &Server) -> [(String, Vec<String>); 6] {
    let document = document();
    let (_, table) = document.split_once("| question | command |\n|---|---|\n").unwrap();
    let seconds: u64 = server.cli(&["time"]).lines().next().unwrap().parse().unwrap();
    let answers = table.lines().take_while(|line| line.starts_with('|')).map(|row| {
        let [_, question, commands, _] = row.split('|').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let answers = commands.split('`').skip(1).step_by(2).map(|command| {
            let command = command.replace("NOW-150000", &(seconds * 1_000 - 150_000).to_string());
            server.cli(&command.split(' ').collect::<Vec<_>>())
        });
        (question.trim().to_owned(), lines(&answers.collect::<Vec<_>>().join("\n")))
    });
    answers.collect::<Vec<_>>().try_into().unwrap()
}

/// Runs a reader. Returns the lines that it prints. Panics if it fails, or runs on for 30 s.
async fn read(command: &mut Command) -> Vec<String> {
    let run = timeout(READ_TIMEOUT, command.kill_on_drop(true).output()).await.expect("it does not end").unwrap();
    assert!(run.status.success(), "{command:?}: {}", String::from_utf8_lossy(&run.stderr));
    lines(&String::from_utf8(run.stdout).unwrap())
}

/// Returns sorted lines. Of a seat only its data stays, and of a process its node.
fn lines(printed: &str) -> Vec<String> {
    let lines = printed.lines().map(|line| match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(seat)) => seat["data"].to_string(),
        _ => line.split_once('/').map_or(line, |(node, _)| node).to_owned(),
    });
    sorted(lines.collect())
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort_unstable();
    lines
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}
