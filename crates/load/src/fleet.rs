//! Many clients, each with a task that reads its socket, for all scenarios, and their options.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures_util::{StreamExt as _, stream};
use rand::RngExt as _;
use signaling_devmesh::MeshFile;
use signaling_protocol::Backoff;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::{Client, Return, retry_after_of};
use crate::driver::progress;
use crate::latency::Latencies;
use crate::message::Wire;
use crate::record::{Record, count};
use crate::servers::{Watched, watched};
use crate::token::TokenKey;
use crate::workers::Share;

const MAX_OPENING: usize = 64;
/// Time limit of a client's first attempt to open its socket. A failure ends the run.
pub(crate) const FIRST_OPEN_TIMEOUT: Duration = Duration::from_secs(15);

// Times of clients that reconnect, as in the SDKs.

/// Maximum delays before the first and before later attempts to reconnect.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Time limit of an attempt to open a socket. A dead machine behind a load balancer swallows
/// attempts for a minute.
const OPEN_TIMEOUT: Duration = Duration::from_secs(4);
/// Time limit of every fourth attempt in a row, for slow paths.
const PATIENT_OPEN_TIMEOUT: Duration = Duration::from_secs(10);
const PATIENT_ATTEMPT: u32 = 4;
const PING: &str = r#"{"type":"ping"}"#;
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Time from a ping to any text, after which the socket counts as dead.
const PONG_TIMEOUT: Duration = Duration::from_secs(5);

/// Receives the events of a fleet's sockets.
pub(crate) trait Listener: 'static {
    /// Handles a text. Returns the id of the message whose outcome it reports, if any. `client` is
    /// a number in the fleet, from 0.
    fn text(&self, client: usize, text: &str) -> Option<u64>;
    /// Handles the end of a socket, but not by [`Fleet::close`]. `reason` is that of
    /// [`Client::read`].
    fn ended(&self, client: usize, reason: String);
    /// Handles the successful reconnect of a client.
    fn returned(&self, _client: usize, _how: &Return) {}
}

/// Counts the sockets that end, of clients that only hold them.
impl Listener for RefCell<Record> {
    fn text(&self, _client: usize, _text: &str) -> Option<u64> {
        None
    }

    fn ended(&self, _client: usize, reason: String) {
        count(&mut self.borrow_mut().closed, &reason);
    }
}

/// Servers of all clients, and the pace of their connections.
pub(crate) struct FleetPlan {
    /// URLs of each client, at least one. It begins with the first; each attempt to reconnect takes
    /// the next, and after the last the first.
    pub(crate) urls: Vec<Vec<String>>,
    /// First text of each client; `None` if the servers greet.
    pub(crate) hello: Option<&'static str>,
    /// Maximum connections begun per second, above 0.
    pub(crate) rate: u32,
    /// `true` if clients resume their session when the socket ends for any reason.
    pub(crate) reconnect: bool,
}

/// Connected clients. Dropping it ends their tasks.
pub(crate) struct Fleet {
    /// In the order of the plan.
    pub(crate) clients: Vec<Rc<Client>>,
    /// Time from the start of each connection to `welcome`.
    pub(crate) connect: Latencies,
    /// Time until all were connected, in seconds.
    pub(crate) connect_seconds: f64,
    _readers: JoinSet<()>,
}

impl Fleet {
    /// Opens all sockets, at most at the rate of the plan and 64 at once. Fails with the first
    /// client that cannot connect. Panics outside a `LocalSet`.
    pub(crate) async fn connect<L: Listener>(plan: FleetPlan, listener: &Rc<L>) -> Result<Self> {
        let FleetPlan { urls, hello, rate, reconnect } = plan;
        let begin = Instant::now();
        let bar = progress(urls.len() as u64, "connecting");
        let mut clients: Vec<Option<Rc<Client>>> = vec![None; urls.len()];
        let (mut connect, mut readers) = (Latencies::default(), JoinSet::new());
        let opening = urls.iter().enumerate().map(async |(number, urls)| {
            sleep_until(begin + Duration::from_secs_f64(number as f64 / f64::from(rate))).await;
            let begin = Instant::now();
            (number, Client::connect(&urls[0], hello, FIRST_OPEN_TIMEOUT).await, begin.elapsed())
        });
        let mut opening = pin!(stream::iter(opening).buffer_unordered(MAX_OPENING));
        while let Some((number, client, took)) = opening.next().await {
            let client = client.map_err(|failed| failed.error).with_context(|| urls[number][0].clone());
            let mut client = client.with_context(|| format!("client {number} of {}", urls.len()))?;
            connect.record_us(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            bar.inc(1);
            if reconnect {
                client.keep_unanswered();
            }
            let client = Rc::new(client);
            clients[number] = Some(Rc::clone(&client));
            let urls = if reconnect { urls[number].clone() } else { Vec::new() };
            readers.spawn_local(listen(number, client, Rc::clone(listener), urls));
        }
        let clients = clients.into_iter().flatten().collect();
        Ok(Self { clients, connect, connect_seconds: begin.elapsed().as_secs_f64(), _readers: readers })
    }

    /// Breaks the connections of the first clients, this percentage of all, rounded down.
    pub(crate) fn cut(&self, percent: u32) {
        let clients = self.clients.len() * percent as usize / 100;
        self.clients[..clients].iter().for_each(|client| client.cut());
    }

    /// Closes all sockets without reports to the listener. Returns the times that the connections
    /// took.
    pub(crate) fn close(self) -> Latencies {
        self.clients.iter().for_each(|client| client.close());
        self.connect
    }
}

/// Reads a client's socket. Reconnects to these URLs in turn, if any, as long as the fleet lives,
/// also when a server answers no ping.
async fn listen<L: Listener>(number: usize, client: Rc<Client>, listener: Rc<L>, urls: Vec<String>) {
    let reconnects = !urls.is_empty();
    let mut urls = urls.iter().cycle().skip(1);
    loop {
        let mut retry_after = None;
        let texts = Cell::new(0_u64);
        let on_text = |text: &str| {
            texts.set(texts.get() + 1);
            if reconnects && text.starts_with(r#"{"type":"pong""#) {
                return;
            }
            if let Some(id) = listener.text(number, text) {
                client.answered(id);
            }
            retry_after = retry_after_of(text).or(retry_after);
        };
        let reason = tokio::select! {
            reason = client.read(on_text) => reason,
            () = unanswered_ping(&client, &texts), if reconnects => {
                client.give_up();
                "no answer to a ping".to_owned()
            }
        };
        listener.ended(number, reason);
        let (lost, mut backoff, mut tries) = (Instant::now(), Backoff::new(FIRST_BACKOFF, MAX_BACKOFF), 0);
        let mut waited = Duration::ZERO;
        loop {
            let Some(url) = urls.next() else { return };
            tries += 1;
            let delay = match retry_after.take() {
                Some(requested) => requested,
                None => rand::rng()
                    .random_range(Duration::ZERO..=max_delay(&mut backoff, lost.elapsed()))
                    .saturating_sub(waited),
            };
            sleep(delay).await;
            let begin = Instant::now();
            match client.reconnect(url, open_timeout(tries)).await {
                Ok(how) => {
                    listener.returned(number, &Return { tries, ..how });
                    break;
                }
                Err(failed) => {
                    retry_after = failed.retry_after;
                    // An attempt without an answer was a wait itself.
                    waited = begin.elapsed();
                }
            }
        }
    }
}

/// Sends pings. Completes when no text has arrived for 5 s after one. `texts` is the number of
/// texts that have arrived.
async fn unanswered_ping(client: &Client, texts: &Cell<u64>) {
    loop {
        sleep(PING_INTERVAL - PONG_TIMEOUT).await;
        let before = texts.get();
        client.send(PING.to_owned(), None);
        sleep(PONG_TIMEOUT).await;
        if texts.get() == before {
            return;
        }
    }
}

/// Returns the time limit for opening the socket of an attempt to reconnect, counted from 1 since
/// the last socket ended.
fn open_timeout(attempt: u32) -> Duration {
    if attempt.is_multiple_of(PATIENT_ATTEMPT) { PATIENT_OPEN_TIMEOUT } else { OPEN_TIMEOUT }
}

/// Returns the maximum delay of a client that has been `away` for this time. It doubles with each
/// attempt from 1 s to 30 s. It is at most twice that time, since a short outage must not lead to a
/// long delay, but at least 1 s.
fn max_delay(backoff: &mut Backoff, away: Duration) -> Duration {
    backoff.next_limit().min(FIRST_BACKOFF.max(away * 2))
}

const DEFAULT_CONNECT_RATE: u32 = 1_000;
const DEFAULT_PREFIX: &str = "load";

/// Clients, and the servers that they connect to.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Clients and servers")]
pub(crate) struct FleetOptions {
    /// Number of clients; even where pairs exchange messages
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) clients: u32,
    /// Server URL, ws://HOST:PORT; may be repeated, then clients use them in turn [default: the
    /// balancers of --dir]
    #[arg(long = "url")]
    pub(crate) urls: Vec<String>,
    /// Directory of a running mesh-dev. Clients without --url connect to its balancers; the report
    /// has CPU time and memory of its servers
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Process whose CPU time and memory the report also has, with those of its children; may be
    /// repeated
    #[arg(long, value_name = "NAME=PID", value_parser = named_process)]
    pub(crate) also: Vec<(String, u32)>,
    /// Maximum connections begun per second, by all clients together
    #[arg(long, default_value_t = DEFAULT_CONNECT_RATE, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connect_rate: u32,
    /// Prefix of client ids (PREFIX-0, PREFIX-1, ...); concurrent runs need different prefixes
    #[arg(long, default_value = DEFAULT_PREFIX, value_parser = prefix)]
    pub(crate) prefix: String,
    /// Clients resume their session when the socket ends, and send unacknowledged messages again.
    #[arg(skip)]
    pub(crate) reconnect: bool,
    /// Number of the first client of this process in the whole load: 0 in the first process.
    #[arg(skip)]
    pub(crate) first: u32,
    /// File for the report as JSON; - prints it to standard output instead of the text
    #[arg(long, help_heading = "Report", value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl FleetOptions {
    /// Returns options for this number of clients, otherwise with the defaults of the command line.
    pub(crate) fn new(clients: u32) -> Self {
        Self { clients, connect_rate: DEFAULT_CONNECT_RATE, prefix: DEFAULT_PREFIX.to_owned(), ..Self::default() }
    }

    /// Returns the id of the client with this number in the process.
    pub(crate) fn client_id(&self, number: usize) -> String {
        format!("{}-{}", self.prefix, self.first as usize + number)
    }

    /// Checks that the number of clients is even, with at least one pair for each process.
    pub(crate) fn check_pairs(&self, processes: u32) -> Result<()> {
        let clients = self.clients;
        ensure!(clients.is_multiple_of(2), "--clients is odd: clients come in pairs");
        ensure!(clients / 2 >= processes, "--clients {clients} is not a pair for each of {processes} processes");
        Ok(())
    }

    /// Returns a process's part of the clients and of the rate at which they connect, at least 1/s.
    /// Only the first part measures `--also`.
    pub(crate) fn of_share(&self, share: Share) -> Self {
        let clients = share.of_clients(self.clients);
        let rate = share.of(self.connect_rate.into());
        let connect_rate = u32::try_from(rate.end - rate.start).unwrap_or(self.connect_rate).max(1);
        let also = if share.number == 0 { self.also.clone() } else { Vec::new() };
        Self { first: clients.start, clients: clients.end - clients.start, connect_rate, also, ..self.clone() }
    }

    /// Returns the plan of all clients, which are native, and the processes to measure, which only
    /// the first process has. Fails without a server, or if the file of the mesh cannot be read.
    pub(crate) fn plan(&self) -> Result<(FleetPlan, Vec<Watched>)> {
        let mesh = self.mesh()?;
        let bases = self.bases(mesh.as_ref());
        ensure!(!bases.is_empty(), "no server to connect to: use --url ws://HOST:PORT, or --dir of a running mesh-dev");
        let tokens = TokenKey::of(mesh.as_ref())?;
        let urls_of = |number: usize| {
            let first = self.first as usize + number;
            let bases = (first..first + bases.len()).map(|turn| &bases[turn % bases.len()]);
            bases.map(|base| connect_url(base, &self.client_id(number), Wire::Native, tokens.as_ref())).collect()
        };
        let urls = (0..usize::try_from(self.clients)?).map(urls_of).collect();
        let mesh = mesh.filter(|_| self.first == 0);
        let plan = FleetPlan { urls, hello: None, rate: self.connect_rate, reconnect: self.reconnect };
        Ok((plan, watched(mesh.as_ref(), &self.also)))
    }

    /// Returns the URLs of the servers for clients: those of `--url`, or else the balancers.
    pub(crate) fn bases(&self, mesh: Option<&MeshFile>) -> Vec<String> {
        let balancers = mesh.into_iter().flat_map(|mesh| &mesh.balancers).map(|balancer| balancer.url.clone());
        if self.urls.is_empty() { balancers.collect() } else { self.urls.clone() }
    }

    /// Returns the mesh of `--dir`; `None` without it. Fails if its file cannot be read.
    pub(crate) fn mesh(&self) -> Result<Option<MeshFile>> {
        self.dir.as_ref().map(MeshFile::read).transpose()
    }
}

/// Returns the URL at which a client connects to the server `base` (`ws://HOST:PORT`). The id must
/// need no escape; that of y-webrtc clients is not in it. A key adds a token of `client_id`, but
/// PeerJS clients get none.
pub(crate) fn connect_url(base: &str, client_id: &str, wire: Wire, tokens: Option<&TokenKey>) -> String {
    let base = base.trim_end_matches('/');
    let token = |before: &str| tokens.map(|key| format!("{before}token={}", key.token(client_id))).unwrap_or_default();
    match wire {
        Wire::Native => format!("{base}/v1/connect?client_id={client_id}{}", token("&")),
        Wire::Peerjs => format!("{base}/peerjs/peerjs?key=peerjs&token={client_id}&id={client_id}"),
        Wire::YWebrtc => format!("{base}/y-webrtc{}", token("?")),
    }
}

fn named_process(text: &str) -> Result<(String, u32)> {
    let (name, pid) = text.split_once('=').context("use NAME=PID")?;
    Ok((name.to_owned(), pid.parse().context("the PID is a number")?))
}

fn prefix(text: &str) -> Result<String, &'static str> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._~:@-".contains(&byte);
    if text.is_empty() || text.len() > 100 || !text.bytes().all(is_valid) {
        return Err("use 1 to 100 characters of A-Z a-z 0-9 . _ ~ : @ -");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use tokio_tungstenite::tungstenite::Message;

    use super::*;
    use crate::testing::{connected, listen, options, welcome};

    #[test]
    fn reconnect_delay_doubles_up_to_twice_the_time_away() {
        let cases: [(u64, &[u64]); 3] =
            [(60_000, &[1, 2, 4, 8, 16, 30, 30]), (300, &[1, 1, 1, 1]), (3_000, &[1, 2, 4, 6, 6])];
        for (away_ms, delays) in cases {
            let mut backoff = Backoff::new(FIRST_BACKOFF, MAX_BACKOFF);
            for seconds in delays {
                let delay = max_delay(&mut backoff, Duration::from_millis(away_ms));
                assert_eq!(delay, Duration::from_secs(*seconds), "away for {away_ms} ms");
            }
        }
    }

    #[test]
    fn every_fourth_attempt_to_open_a_socket_is_patient() {
        let seconds: Vec<u64> = (1..=9).map(|attempt| open_timeout(attempt).as_secs()).collect();

        assert_eq!(seconds, [4, 4, 4, 10, 4, 4, 4, 10, 4]);
    }

    #[tokio::test]
    async fn server_that_answers_no_ping_counts_as_lost() {
        let (client, mut server) = connected().await;
        let texts = Cell::new(0);
        tokio::time::pause();

        let answering = async {
            for _ in 0..20 {
                sleep(Duration::from_secs(3)).await;
                texts.set(texts.get() + 1);
            }
        };
        tokio::select! {
            () = answering => {}
            () = unanswered_ping(&client, &texts) => panic!("a server that sends texts counts as silent"),
        }
        let begin = Instant::now();
        unanswered_ping(&client, &texts).await;

        assert_eq!(begin.elapsed().as_secs(), 10);
        assert_eq!(server.next().await.unwrap().unwrap(), Message::text(PING));
    }

    #[tokio::test]
    async fn client_leaves_a_silent_server_for_the_next_one() {
        let (silent, silent_url) = listen().await;
        let (next, next_url) = listen().await;
        let plan = FleetPlan { urls: vec![vec![silent_url, next_url]], hello: None, rate: 1, reconnect: true };
        let record = Rc::new(RefCell::new(Record::default()));
        let leaving = async {
            let (fleet, _socket) = tokio::join!(Fleet::connect(plan, &record), welcome(&silent));
            let _fleet = fleet.unwrap();
            tokio::time::pause();
            let welcoming = tokio::task::spawn_local(async move { welcome(&next).await });
            // Time passes step by step, so that sockets can follow it.
            for _ in (0..600).take_while(|_| !welcoming.is_finished()) {
                tokio::time::advance(Duration::from_millis(100)).await;
                tokio::task::spawn_blocking(std::thread::yield_now).await.unwrap();
            }
        };
        tokio::task::LocalSet::new().run_until(leaving).await;

        assert_eq!(record.borrow().closed, [("no answer to a ping".to_owned(), 1)].into());
    }

    fn fleet(arguments: &[&str]) -> FleetOptions {
        options(arguments).unwrap()
    }

    #[test]
    fn plan_without_a_server_names_the_missing_flag() {
        let error = |arguments: &[&str]| fleet(arguments).plan().err().unwrap().to_string();

        assert!(error(&[]).contains("--url"));
        assert!(error(&["--dir=/no/such/folder"]).contains("mesh-dev up"));
    }

    #[test]
    fn wrong_processes_and_prefixes_are_refused() {
        let own = std::process::id();
        let named = fleet(&["--url=ws://127.0.0.1:1", &format!("--also=nginx={own}")]);

        assert!(!named.plan().unwrap().1.is_empty());
        assert!(options::<FleetOptions>(&["--also=nginx"]).is_err());
        assert!(options::<FleetOptions>(&["--prefix=a b"]).is_err());
    }

    #[test]
    fn shares_have_each_client_and_its_urls_once() {
        let whole = fleet(&["--clients=10", "--url=ws://127.0.0.1:1", "--url=ws://127.0.0.1:2"]);
        let urls = |options: &FleetOptions| options.plan().unwrap().0.urls;

        let parts: Vec<_> = (0..3).flat_map(|number| urls(&whole.of_share(Share { number, of: 3 }))).collect();

        assert_eq!(parts, urls(&whole));
        assert_eq!(parts[2][0], "ws://127.0.0.1:1/v1/connect?client_id=load-2");
    }

    #[test]
    fn only_the_first_share_measures_further_processes() {
        let whole = fleet(&["--clients=6", &format!("--also=nginx={}", std::process::id())]);

        let measured = [0, 1, 2].map(|number| whole.of_share(Share { number, of: 3 }).also.len());

        assert_eq!(measured, [1, 0, 0]);
    }
}
