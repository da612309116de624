//! Requests of each command. `main` calls [`run`]; `show` formats the answers.

use clap::CommandFactory as _;
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use signaling_admin::Missing;
use signaling_admin::clients::{Client, Clients, Kicked};
use signaling_admin::explain::{Explanation, RoomExplanation};
use signaling_admin::rooms::{MAX_PAGE, Removed, Room, Rooms};
use signaling_admin::servers::{Draining, Nodes};

use crate::api::{Api, Failure, Parameter};
use crate::cli::{Cli, Command, Names};
use crate::{Ending, drain, print, show};

/// Runs a command: sends its requests and prints the answers. Warnings go to standard error. Fails
/// if a request fails or standard output cannot be written.
pub(crate) async fn run(cli: Cli) -> Result<Ending, Failure> {
    let json = cli.json;
    let api = || Api::new(&cli.server);
    match cli.command {
        Command::Nodes => {
            let nodes: Nodes = api()?.get(&["nodes"]).await?;
            print_answer(json, &nodes, &nodes.missing, show::nodes)
        }
        Command::Clients(names) => {
            let clients: Clients = list(&api()?, &["clients"], names.query(), names.all).await?;
            print_answer(json, &clients, &clients.missing, show::clients)
        }
        Command::Client { id } => {
            let client: Client = api()?.get(&["clients", &id]).await?;
            print_answer(json, &client, &client.missing, show::client)
        }
        Command::Explain { id, room: false } => {
            let explanation: Explanation = api()?.get(&["explain", &id]).await?;
            print_answer(json, &explanation, &explanation.missing, show::explanation)
        }
        Command::Explain { id, room: true } => {
            let room: RoomExplanation = api()?.get(&["rooms", &id, "explain"]).await?;
            print_answer(json, &room, &room.missing, show::room_explanation)
        }
        Command::Rooms(names) => {
            let rooms: Rooms = list(&api()?, &["rooms"], names.query(), names.all).await?;
            print_answer(json, &rooms, &rooms.missing, show::rooms)
        }
        Command::Room { name, all } => {
            let room: Room = list(&api()?, &["rooms", &name], Vec::new(), all).await?;
            print_answer(json, &room, &[], show::room)?;
            Ok(if room.count == 0 && room.waiting == 0 { Ending::No } else { Ending::Done })
        }
        Command::Capacity { room, capacity, reset } => {
            let api = api()?;
            let path = ["rooms", &room, "capacity"];
            let room: Room = match capacity {
                Some(capacity) => api.send(Method::PUT, &path, &[], Some(json!({ "capacity": capacity }))).await?,
                None if reset => api.send(Method::DELETE, &path, &[], None).await?,
                None => api.get(&["rooms", &room]).await?,
            };
            print_answer(json, &json!({ "room": room.room, "capacity": room.capacity }), &[], |_| show::capacity(&room))
        }
        Command::Remove { room, client } => {
            let path = ["rooms", &room, "members", &client];
            let removed: Removed = api()?.send(Method::DELETE, &path, &[], None).await?;
            print_answer(json, &removed, &[], show::removed)?;
            Ok(if removed.was_here { Ending::Done } else { Ending::No })
        }
        Command::Block { room, client, seconds } => {
            let path = ["rooms", &room, "blocks", &client];
            let body = json!({ "for_ms": seconds.saturating_mul(1_000) });
            let removed: Removed = api()?.send(Method::PUT, &path, &[], Some(body)).await?;
            print_answer(json, &removed, &[], |removed| show::blocked(removed, seconds))
        }
        Command::Unblock { room, client } => {
            let room: Room = api()?.send(Method::DELETE, &["rooms", &room, "blocks", &client], &[], None).await?;
            print_answer(json, &json!({ "room": room.room, "blocks": room.blocks }), &[], |_| show::blocks(&room))
        }
        Command::Close { room, seconds } => {
            let body = seconds.map(|seconds| json!({ "for_ms": seconds.saturating_mul(1_000) }));
            let room: Room = api()?.send(Method::PUT, &["rooms", &room, "closed"], &[], body).await?;
            print_closure(json, &room)
        }
        Command::Open { room } => {
            let room: Room = api()?.send(Method::DELETE, &["rooms", &room, "closed"], &[], None).await?;
            print_closure(json, &room)
        }
        Command::Kick { id } => {
            let kicked: Kicked = api()?.send(Method::POST, &["clients", &id, "kick"], &[], None).await?;
            Ok(match print_answer(json, &kicked, &kicked.missing, show::kicked)? {
                Ending::Done if !kicked.was_here => Ending::No,
                ending => ending,
            })
        }
        Command::Drain { name, wait, timeout } => {
            let api = api()?;
            let answer = set_draining(&api, json, name.as_deref(), "drain").await?;
            if wait { drain::until_empty(&api, name.as_deref(), timeout).await } else { Ok(answer) }
        }
        Command::Undrain { name } => set_draining(&api()?, json, name.as_deref(), "undrain").await,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "mesh-ctl", &mut script);
            print(&String::from_utf8_lossy(&script)).map(|()| Ending::Done)
        }
        Command::Secret => print(&format!("{}\n", random_secret()?)).map(|()| Ending::Done),
    }
}

fn print_closure(json: bool, room: &Room) -> Result<Ending, Failure> {
    let Room { room: name, closed, closed_for_ms, .. } = room;
    let answer = json!({ "room": name, "closed": closed, "closed_for_ms": closed_for_ms });
    print_answer(json, &answer, &[], |_| show::closure(room))
}

fn random_secret() -> Result<String, Failure> {
    let mut bytes = [0_u8; 32];
    let random = getrandom::fill(&mut bytes);
    random.map_err(|error| Failure::Unusable(format!("the system provides no random bytes: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Prints an answer as JSON or as a table, and warns of the nodes that are missing from it.
fn print_answer<T: Serialize>(
    json: bool,
    answer: &T,
    missing: &[Missing],
    table: impl FnOnce(&T) -> String,
) -> Result<Ending, Failure> {
    if json {
        let text = serde_json::to_string_pretty(answer).map_err(|error| Failure::Unusable(error.to_string()))?;
        print(&(text + "\n"))?;
    } else {
        print(&printable(&table(answer)))?;
    }
    for Missing { node, why } in missing {
        eprintln!("mesh-ctl: without {node}: {why}");
    }
    Ok(if missing.is_empty() { Ending::Done } else { Ending::Partial })
}

/// Replaces characters that move the cursor or change the writing direction by U+FFFD: clients
/// choose the content of rooms.
fn printable(text: &str) -> String {
    let is_unsafe = |char: char| {
        char != '\n' && char.is_control() || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.replace(is_unsafe, "\u{fffd}")
}

async fn set_draining(api: &Api, json: bool, server: Option<&str>, what: &str) -> Result<Ending, Failure> {
    let path = server.map_or_else(|| vec![what], |server| vec!["nodes", server, what]);
    let draining: Draining = api.send(Method::POST, &path, &[], None).await?;
    print_answer(json, &draining, &[], |draining| show::draining(server, *draining))
}

impl Names {
    fn query(&self) -> Vec<Parameter> {
        let limit = if self.all { MAX_PAGE } else { self.limit };
        let named = [("after", &self.after), ("prefix", &self.prefix)];
        let named = named.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        named.chain([("limit", limit.to_string())]).collect()
    }
}

/// A list that is read page by page.
trait Paged: DeserializeOwned {
    /// Returns the cursor of the next page; `None`: there is none.
    fn next(&self) -> Option<String>;
    /// Appends the next page. Counts stay those of the first page.
    fn append(&mut self, page: Self);
}

impl Paged for Clients {
    fn next(&self) -> Option<String> {
        self.next.clone()
    }

    fn append(&mut self, page: Self) {
        self.clients.extend(page.clients);
        self.next = page.next;
        add_missing(&mut self.missing, page.missing);
    }
}

impl Paged for Rooms {
    fn next(&self) -> Option<String> {
        self.next.clone()
    }

    fn append(&mut self, page: Self) {
        self.rooms.extend(page.rooms);
        self.next = page.next;
        add_missing(&mut self.missing, page.missing);
    }
}

impl Paged for Room {
    fn next(&self) -> Option<String> {
        self.members.last().filter(|_| self.more).map(|member| member.client_id.clone())
    }

    fn append(&mut self, page: Self) {
        self.members.extend(page.members);
        self.more = page.more;
    }
}

fn add_missing(known: &mut Vec<Missing>, further: Vec<Missing>) {
    known.extend(further);
    known.sort_by(|a, b| a.node.cmp(&b.node));
    known.dedup_by(|later, earlier| later.node == earlier.node);
}

/// Requests the first page of a list, and with `all` the others.
async fn list<T: Paged>(api: &Api, path: &[&str], mut query: Vec<Parameter>, all: bool) -> Result<T, Failure> {
    let mut whole: T = api.send(Method::GET, path, &query, None).await?;
    while let Some(next) = whole.next().filter(|_| all) {
        query.retain(|(name, _)| *name != "after");
        query.push(("after", next));
        whole.append(api.send(Method::GET, path, &query, None).await?);
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_random_and_has_64_hexadecimal_digits() {
        let [one, other] = [random_secret().unwrap(), random_secret().unwrap()];
        assert!(one.len() == 64 && one.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
        assert_ne!(one, other);
    }

    #[test]
    fn control_characters_are_not_printed() {
        assert_eq!(printable("a\u{1b}[2J\u{9b}1m\u{202e}x\r\n"), "a\u{fffd}[2J\u{fffd}1m\u{fffd}x\u{fffd}\n");
    }
}
