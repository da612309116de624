use clap::CommandFactory as _;
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use signaling_admin::Missing;
use signaling_admin::clients::{Client, Clients, Kicked};
use signaling_admin::explain::Explanation;
use signaling_admin::placement::BalancerExplanation;
use signaling_admin::preview::Preview;
use signaling_admin::rooms::{self, Room, Rooms};
use signaling_admin::servers::{Draining, Nodes};

use crate::api::{Api, Failure};
use crate::cli::{Cli, Command, Pages};
use crate::table::terminal_width;
use crate::{Ending, drain, print, show};

/// Names per request.
const PAGE: usize = 1_000;

/// Runs a command: sends its requests and prints the answers.
pub(crate) async fn run(cli: Cli) -> Result<Ending, Failure> {
    if let Command::Completions { shell } = cli.command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "mesh-ctl", &mut script);
        print(&String::from_utf8_lossy(&script))?;
        return Ok(Ending::Done);
    }
    let out = Out { json: cli.json, width: terminal_width() };
    let api = Api::new(&cli.server)?;
    match cli.command {
        Command::Nodes => {
            let answer = api.get(&["nodes"], &[]).await?;
            let nodes: Nodes = api.read(&answer)?;
            out.answer(&answer, || show::nodes(&nodes, out.width))?;
            Ok(partial(&nodes.missing))
        }
        Command::Clients { prefix, pages } => {
            let query: Vec<_> = prefix.as_deref().map(|prefix| ("prefix", prefix)).into_iter().collect();
            let clients: Clients = all_pages(&api, "clients", &query, Reader::new(&pages, PAGE)).await?;
            out.answer(&clients, || show::clients(&clients, out.width))?;
            Ok(partial(&clients.missing))
        }
        Command::Client { id } => {
            let answer = api.get(&["clients", &id], &[]).await?;
            let client: Client = api.read(&answer)?;
            out.answer(&answer, || show::client(&client, out.width))?;
            Ok(partial(&client.missing))
        }
        Command::Explain { id } => explain(&api, &out, &id).await,
        Command::Preview { join, leave, pages } => {
            let change = join.as_deref().map(|node| ("join", node)).or(leave.as_deref().map(|node| ("leave", node)));
            let reader = Reader::new(&pages, PAGE);
            let preview: Preview = all_pages(&api, "preview", &[change.unwrap_or_default()], reader).await?;
            out.answer(&preview, || show::preview(&preview, out.width))?;
            Ok(partial(&preview.missing))
        }
        Command::Rooms { prefix, pages } => {
            let query: Vec<_> = prefix.as_deref().map(|prefix| ("prefix", prefix)).into_iter().collect();
            let rooms: Rooms = all_pages(&api, "rooms", &query, Reader::new(&pages, rooms::MAX_PAGE)).await?;
            out.answer(&rooms, || show::rooms(&rooms, out.width))?;
            Ok(partial(&rooms.missing))
        }
        Command::Room { name, all } => {
            let room = whole_room(&api, &name, all).await?;
            out.answer(&room, || show::room(&room, out.width))?;
            Ok(if room.count == 0 && room.waiting == 0 { Ending::No } else { Ending::Done })
        }
        Command::Capacity { room, capacity, reset } => {
            let path = ["rooms", &room, "capacity"];
            let answer = match capacity {
                Some(capacity) => api.ask(Method::PUT, &path, &[], Some(json!({ "capacity": capacity }))).await?,
                None if reset => api.ask(Method::DELETE, &path, &[], None).await?,
                None => api.get(&["rooms", &room], &[]).await?,
            };
            let room: Room = api.read(&answer)?;
            out.answer(&json!({ "room": room.room, "capacity": room.capacity }), || show::capacity(&room))?;
            Ok(Ending::Done)
        }
        Command::Kick { id } => {
            let answer = api.ask(Method::POST, &["clients", &id, "kick"], &[], None).await?;
            let kicked: Kicked = api.read(&answer)?;
            out.answer(&answer, || show::kicked(&kicked))?;
            Ok(match partial(&kicked.missing) {
                Ending::Done if !kicked.was_here => Ending::No,
                ending => ending,
            })
        }
        Command::Drain { node, wait, timeout } => {
            let answer = turn(&api, &out, node.as_deref(), "drain").await?;
            if wait { drain::until_empty(&api, node.as_deref(), timeout).await } else { Ok(answer) }
        }
        Command::Undrain { node } => turn(&api, &out, node.as_deref(), "undrain").await,
        Command::Completions { .. } => Ok(Ending::Done),
    }
}

/// Output format.
struct Out {
    json: bool,
    width: Option<usize>,
}

impl Out {
    fn answer(&self, answer: &impl Serialize, table: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json {
            let text = serde_json::to_string_pretty(answer).map_err(|error| Failure::Output(error.into()))?;
            print(&(text + "\n"))
        } else {
            print(&table())
        }
    }
}

/// Warns of missing nodes.
fn partial(missing: &[Missing]) -> Ending {
    for Missing { node, why } in missing {
        eprintln!("mesh-ctl: without {node}: {why}");
    }
    if missing.is_empty() { Ending::Done } else { Ending::Partial }
}

async fn explain(api: &Api, out: &Out, id: &str) -> Result<Ending, Failure> {
    let answer = api.get(&["explain", id], &[]).await?;
    if answer.get("sessions").is_some() {
        let explanation: BalancerExplanation = api.read(&answer)?;
        out.answer(&answer, || show::balancer_explanation(&explanation, out.width))?;
        return Ok(Ending::Done);
    }
    let explanation: Explanation = api.read(&answer)?;
    out.answer(&answer, || show::explanation(&explanation, out.width))?;
    Ok(partial(&explanation.missing))
}

async fn turn(api: &Api, out: &Out, node: Option<&str>, what: &str) -> Result<Ending, Failure> {
    let path = node.map_or_else(|| vec![what], |node| vec!["nodes", node, what]);
    let answer = api.ask(Method::POST, &path, &[], None).await?;
    let draining: Draining = api.read(&answer)?;
    out.answer(&answer, || show::draining(node, draining))?;
    Ok(Ending::Done)
}

/// Progress in a list that is read page by page.
struct Reader {
    left: usize,
    after: Option<String>,
    most: usize,
}

impl Reader {
    fn new(pages: &Pages, most: usize) -> Self {
        let left = if pages.all { usize::MAX } else { pages.limit as usize };
        Self { left, after: pages.after.clone(), most }
    }

    fn query<'a>(&'a self, limit: &'a str, further: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let mut query = vec![("limit", limit)];
        query.extend(self.after.as_deref().map(|after| ("after", after)));
        query.extend(further);
        query
    }

    fn limit(&self) -> String {
        self.left.min(self.most).to_string()
    }

    /// Counts `read` further names. Returns `true` if another page is needed.
    fn goes_on(&mut self, read: usize, next: Option<&String>) -> bool {
        self.left = self.left.saturating_sub(read.max(1));
        self.after = next.cloned();
        self.after.is_some() && self.left > 0
    }
}

/// An answer that is read page by page.
trait Paged: DeserializeOwned {
    /// Appends a further page. Counts stay those of the first page.
    fn append(&mut self, page: Self);
    /// Returns the number of names, and the cursor of the next page.
    fn read(&self) -> (usize, Option<&String>);
}

macro_rules! paged {
    ($answer:ty, $list:ident) => {
        impl Paged for $answer {
            fn append(&mut self, page: Self) {
                self.$list.extend(page.$list);
                self.next = page.next;
                for missing in page.missing {
                    if self.missing.iter().all(|known| known.node != missing.node) {
                        self.missing.push(missing);
                    }
                }
            }

            fn read(&self) -> (usize, Option<&String>) {
                (self.$list.len(), self.next.as_ref())
            }
        }
    };
}

paged!(Clients, clients);
paged!(Rooms, rooms);
paged!(Preview, clients);

async fn all_pages<T: Paged>(api: &Api, path: &str, query: &[(&str, &str)], mut reader: Reader) -> Result<T, Failure> {
    let mut whole: Option<T> = None;
    loop {
        let answer = api.get(&[path], &reader.query(&reader.limit(), query)).await?;
        let page: T = api.read(&answer)?;
        let (read, next) = page.read();
        let goes_on = reader.goes_on(read, next);
        let all = match whole.take() {
            None => page,
            Some(mut all) => {
                all.append(page);
                all
            }
        };
        if !goes_on {
            return Ok(all);
        }
        whole = Some(all);
    }
}

async fn whole_room(api: &Api, name: &str, all: bool) -> Result<Room, Failure> {
    let mut whole: Option<Room> = None;
    loop {
        let after = whole.as_ref().and_then(|room| room.members.last()).map(|member| member.client_id.clone());
        let query: Vec<_> = after.as_deref().map(|after| ("after", after)).into_iter().collect();
        let answer: Value = api.get(&["rooms", name], &query).await?;
        let page: Room = api.read(&answer)?;
        let more = page.more && !page.members.is_empty();
        let room = match whole.take() {
            None => page,
            Some(mut first) => {
                first.members.extend(page.members);
                first.more = page.more;
                first
            }
        };
        if !(all && more) {
            return Ok(room);
        }
        whole = Some(room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_read_until_there_are_enough_or_no_more() {
        let pages = |limit, all| Pages { after: None, limit, all };
        let mut some = Reader::new(&pages(1_500, false), PAGE);
        let next = "m".to_owned();
        assert_eq!(some.limit(), "1000");
        assert!(some.goes_on(1_000, Some(&next)));
        assert_eq!(some.limit(), "500");
        assert_eq!(some.query("500", &[("prefix", "a")]), [("limit", "500"), ("after", "m"), ("prefix", "a")]);
        assert!(!some.goes_on(500, Some(&next)));
        let mut all = Reader::new(&pages(100, true), PAGE);
        assert!(all.goes_on(1_000, Some(&next)) && !all.goes_on(3, None));
    }
}
