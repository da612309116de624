//! Requests of each command. `main` calls [`run`]; `show` formats the answers.

use clap::CommandFactory as _;
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use signaling_admin::clients::{Client, Clients, Kicked};
use signaling_admin::explain::{Explanation, RoomExplanation};
use signaling_admin::rooms::{self, Room, Rooms};
use signaling_admin::servers::{Draining, Nodes};
use signaling_admin::{Missing, page};

use crate::api::{Api, Failure};
use crate::cli::{Cli, Command, Names, Pages};
use crate::table::terminal_width;
use crate::{Ending, drain, print, show};

/// Runs a command: sends its requests and prints the answers. Warnings go to standard error. Fails
/// if a request fails or standard output cannot be written.
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
            let (answer, nodes) = api.get::<Nodes>(&["nodes"]).await?;
            out.answer(&answer, &nodes.missing, || show::nodes(&nodes, out.width))
        }
        Command::Clients(Names { prefix, pages }) => {
            let query = prefix.map(|prefix| ("prefix", prefix));
            let clients: Clients = all_pages(&api, &["clients"], query, Reader::new(pages)).await?;
            out.answer(&clients, &clients.missing, || show::clients(&clients, out.width))
        }
        Command::Client { id } => {
            let (answer, client) = api.get::<Client>(&["clients", &id]).await?;
            out.answer(&answer, &client.missing, || show::client(&client, out.width))
        }
        Command::Explain { id, room: false } => {
            let (answer, explanation) = api.get::<Explanation>(&["explain", &id]).await?;
            out.answer(&answer, &explanation.missing, || show::explanation(&explanation, out.width))
        }
        Command::Explain { id, room: true } => {
            let (answer, room) = api.get::<RoomExplanation>(&["rooms", &id, "explain"]).await?;
            out.answer(&answer, &room.missing, || show::room_explanation(&room, out.width))
        }
        Command::Rooms(Names { prefix, pages }) => {
            let query = prefix.map(|prefix| ("prefix", prefix));
            let rooms: Rooms = all_pages(&api, &["rooms"], query, Reader::new(pages)).await?;
            out.answer(&rooms, &rooms.missing, || show::rooms(&rooms, out.width))
        }
        Command::Room { name, all } => {
            // Without `all` one page is enough, of any length.
            let reader = Reader { left: if all { usize::MAX } else { 1 }, after: None };
            let room: Room = all_pages(&api, &["rooms", &name], None, reader).await?;
            out.answer(&room, &[], || show::room(&room, out.width))?;
            Ok(if room.count == 0 && room.waiting == 0 { Ending::No } else { Ending::Done })
        }
        Command::Capacity { room, capacity, reset } => {
            let path = ["rooms", &room, "capacity"];
            let (_, room): (_, Room) = match capacity {
                Some(capacity) => api.ask(Method::PUT, &path, Some(json!({ "capacity": capacity }))).await?,
                None if reset => api.ask(Method::DELETE, &path, None).await?,
                None => api.get(&["rooms", &room]).await?,
            };
            out.answer(&json!({ "room": room.room, "capacity": room.capacity }), &[], || show::capacity(&room))
        }
        Command::Kick { id } => {
            let (answer, kicked) = api.ask::<Kicked>(Method::POST, &["clients", &id, "kick"], None).await?;
            Ok(match out.answer(&answer, &kicked.missing, || show::kicked(&kicked))? {
                Ending::Done if !kicked.was_here => Ending::No,
                ending => ending,
            })
        }
        Command::Drain { node, wait, timeout } => {
            let answer = set_draining(&api, &out, node.as_deref(), "drain").await?;
            if wait { drain::until_empty(&api, node.as_deref(), timeout).await } else { Ok(answer) }
        }
        Command::Undrain { node } => set_draining(&api, &out, node.as_deref(), "undrain").await,
        Command::Completions { .. } => Ok(Ending::Done),
    }
}

/// Output format.
struct Out {
    json: bool,
    width: Option<usize>,
}

impl Out {
    /// Prints an answer, and warns of the nodes that are missing from it.
    fn answer(
        &self,
        answer: &impl Serialize,
        missing: &[Missing],
        table: impl FnOnce() -> String,
    ) -> Result<Ending, Failure> {
        if self.json {
            let text = serde_json::to_string_pretty(answer).map_err(|error| Failure::Output(error.into()))?;
            print(&(text + "\n"))?;
        } else {
            print(&table())?;
        }
        for Missing { node, why } in missing {
            eprintln!("mesh-ctl: without {node}: {why}");
        }
        Ok(if missing.is_empty() { Ending::Done } else { Ending::Partial })
    }
}

async fn set_draining(api: &Api, out: &Out, node: Option<&str>, what: &str) -> Result<Ending, Failure> {
    let path = node.map_or_else(|| vec![what], |node| vec!["nodes", node, what]);
    let (answer, draining) = api.ask::<Draining>(Method::POST, &path, None).await?;
    out.answer(&answer, &[], || show::draining(node, draining))
}

type Parameter = (&'static str, String);

/// Progress in a list that is read page by page.
struct Reader {
    /// Maximum further names.
    left: usize,
    /// Cursor of the next page.
    after: Option<String>,
}

impl Reader {
    fn new(Pages { after, limit, all }: Pages) -> Self {
        Self { left: if all { usize::MAX } else { limit as usize }, after }
    }

    /// Returns the parameters of the next page, which has at most `max_page` names.
    fn query(&self, max_page: Option<usize>, further: Option<&Parameter>) -> Vec<Parameter> {
        let limit = max_page.map(|max_page| ("limit", self.left.min(max_page).to_string()));
        let after = self.after.clone().map(|after| ("after", after));
        limit.into_iter().chain(after).chain(further.cloned()).collect()
    }

    /// Counts `read` further names. Returns `true` if another page is needed.
    fn needs_next_page(&mut self, read: usize, next: Option<&str>) -> bool {
        self.left = self.left.saturating_sub(read.max(1));
        self.after = next.map(str::to_owned);
        self.after.is_some() && self.left > 0
    }
}

/// An answer that is read page by page.
trait Paged: DeserializeOwned {
    /// Maximum names of a page. `None` if the server decides it alone.
    const MAX_PAGE: Option<usize>;
    /// Appends a further page. Counts stay those of the first page.
    fn append(&mut self, page: Self);
    /// Returns the number of names, and the cursor of the next page.
    fn read(&self) -> (usize, Option<&str>);
}

macro_rules! paged {
    ($answer:ty, $list:ident, $max_page:expr) => {
        impl Paged for $answer {
            const MAX_PAGE: Option<usize> = Some($max_page);

            fn append(&mut self, page: Self) {
                self.$list.extend(page.$list);
                self.next = page.next;
                for missing in page.missing {
                    if self.missing.iter().all(|known| known.node != missing.node) {
                        self.missing.push(missing);
                    }
                }
            }

            fn read(&self) -> (usize, Option<&str>) {
                (self.$list.len(), self.next.as_deref())
            }
        }
    };
}

paged!(Clients, clients, page::MAX_NAMES);
paged!(Rooms, rooms, rooms::MAX_PAGE);

impl Paged for Room {
    const MAX_PAGE: Option<usize> = None;

    fn append(&mut self, page: Self) {
        self.members.extend(page.members);
        self.more = page.more;
    }

    fn read(&self) -> (usize, Option<&str>) {
        let last = self.members.last().filter(|_| self.more);
        (self.members.len(), last.map(|member| member.client_id.as_str()))
    }
}

async fn all_pages<T: Paged>(
    api: &Api,
    path: &[&str],
    query: Option<Parameter>,
    mut reader: Reader,
) -> Result<T, Failure> {
    let mut whole: Option<T> = None;
    loop {
        let query = reader.query(T::MAX_PAGE, query.as_ref());
        let page: T = api.decode(&api.send(Method::GET, path, &query, None).await?)?;
        let (read, next) = page.read();
        let needs_next_page = reader.needs_next_page(read, next);
        match &mut whole {
            None => whole = Some(page),
            Some(whole) => whole.append(page),
        }
        if let Some(whole) = whole.take_if(|_| !needs_next_page) {
            return Ok(whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_read_until_the_limit_or_its_end() {
        let pages = |limit, all| Pages { after: None, limit, all };
        let mut some = Reader::new(pages(1_500, false));
        let parameter = |name, value: &str| (name, value.to_owned());
        assert_eq!(some.query(Some(1_000), None), [parameter("limit", "1000")]);
        assert!(some.needs_next_page(1_000, Some("m")));
        let prefix = parameter("prefix", "a");
        let query = some.query(Some(1_000), Some(&prefix));
        assert_eq!(query, [parameter("limit", "500"), parameter("after", "m"), prefix]);
        assert!(!some.needs_next_page(500, Some("m")));
        let mut all = Reader::new(pages(100, true));
        assert!(all.needs_next_page(1_000, Some("m")) && !all.needs_next_page(3, None));
    }
}
