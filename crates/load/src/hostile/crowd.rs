//! The hostile clients of `hostile`, on their own threads, so that they do not delay the good ones.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::future::pending;
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, interval, sleep};
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::makers::Makers;
use crate::fleet::connect_url;
use crate::message::Wire;
use crate::token::TokenKey;

/// Connections per second: fewer than the servers accept, so that the crowd does not block itself.
const CONNECTS_PER_SECOND: f64 = 1_500.0;
/// Maximum additional time until 90% have connected.
const GATHER_TIMEOUT: Duration = Duration::from_secs(20);
/// Part of the crowd that counts as complete, since some clients are always reconnecting.
const GATHERED_SHARE: f64 = 0.9;
/// Minimum part of the crowd that is connected in a valid measurement, on average.
const MIN_SHARE: f64 = 0.8;
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const ADDRESSES: u32 = 50;
const BYTE_INTERVAL: Duration = Duration::from_secs(1);
const MESSAGE_INTERVAL: Duration = Duration::from_secs(2);
const MESSAGE_BYTES: usize = 8 * 1024;
/// Receive buffer of a client that does not read, in bytes.
const RECEIVE_BUFFER: u32 = 4 * 1024;
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Increase of the nice value that gives room makers the lowest priority, 19, from any other. They
/// take all CPU time that they get, but makers on another machine would take none of the servers.
const LOWEST_PRIORITY: i32 = 19;

/// The connected crowd, until it is dropped.
pub(super) struct Crowd {
    connected: Arc<Connected>,
    /// The end of each thread, which it notices when this is dropped.
    _ends: [oneshot::Sender<()>; 2],
}

/// Counter of connected clients of one kind: each holds a clone.
type Headcount = Arc<()>;

#[derive(Debug, Default)]
struct Connected {
    handshakes: Headcount,
    deaf: Headcount,
}

/// Number of hostile clients with a TCP connection, by kind. A mean may be a fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct CrowdSize {
    /// Connections that send their handshake slowly.
    pub(super) handshakes: f64,
    /// Clients that never read.
    pub(super) deaf: f64,
}

impl Crowd {
    /// Connects all clients, in turn to `targets`, loopback IPv4 addresses. Fails if less than 90%
    /// of the handshakes or clients that never read are connected 20 s after all should be.
    pub(super) async fn gather(expected: CrowdSize, targets: Vec<SocketAddr>, makers: Makers) -> Result<Self> {
        let connected = Arc::new(Connected::default());
        let counts = Arc::clone(&connected);
        let tokens = makers.tokens.clone();
        let ends = [
            start_thread("crowd", 0, async move || attack(expected, &counts, &targets, tokens.as_ref()).await)?,
            start_thread("room-makers", LOWEST_PRIORITY, async move || make_rooms(makers).await)?,
        ];
        let crowd = Self { connected, _ends: ends };
        let CrowdSize { handshakes, deaf } = expected;
        let give_up =
            Instant::now() + Duration::from_secs_f64((handshakes + deaf) / CONNECTS_PER_SECOND) + GATHER_TIMEOUT;
        while !crowd.size().is_share_of(expected, GATHERED_SHARE) {
            if Instant::now() > give_up {
                let now = crowd.size();
                bail!(
                    "only {} of {handshakes} handshakes and {} of {deaf} clients that do not read have connected",
                    now.handshakes,
                    now.deaf
                );
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(crowd)
    }

    pub(super) fn size(&self) -> CrowdSize {
        let count = |counter| (Arc::strong_count(counter) - 1) as f64;
        CrowdSize { handshakes: count(&self.connected.handshakes), deaf: count(&self.connected.deaf) }
    }
}

impl CrowdSize {
    fn is_share_of(self, expected: Self, share: f64) -> bool {
        self.handshakes >= expected.handshakes * share && self.deaf >= expected.deaf * share
    }

    /// Returns the average size, or zeros without any.
    pub(super) fn mean(sizes: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| sizes.iter().map(of).sum::<f64>() / sizes.len().max(1) as f64;
        Self { handshakes: mean(|size| size.handshakes), deaf: mean(|size| size.deaf) }
    }

    /// Returns a message for each kind of which less than 80% of the expected ones were connected.
    pub(super) fn failures(self, expected: Self) -> impl Iterator<Item = String> {
        let kinds = [
            ("handshakes", self.handshakes, expected.handshakes),
            ("clients that do not read", self.deaf, expected.deaf),
        ];
        let is_missing = |(_, size, expected): &(&str, f64, f64)| *size < expected * MIN_SHARE;
        let failure = |(what, size, expected)| format!("only {size:.0} of {expected} {what} were connected");
        kinds.into_iter().filter(is_missing).map(failure)
    }
}

/// Runs a part of the crowd on a thread, until the returned end is dropped. The thread has the nice
/// value of the calling one plus `niceness_increase`, at most 19.
fn start_thread(
    name: &str,
    niceness_increase: i32,
    part: impl AsyncFnOnce() + Send + 'static,
) -> Result<oneshot::Sender<()>> {
    let (end, ended) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        // Linux lowers the priority of this thread alone, which needs no permission.
        let _ = rustix::process::nice(niceness_increase);
        LocalSet::new().block_on(&runtime, async move {
            tokio::select! {
                () = part() => {}
                // Completes when the other end is dropped, with an error.
                _ = ended => {}
            }
        });
    };
    thread::Builder::new().name(name.into()).spawn(run).context("cannot start a thread")?;
    Ok(end)
}

async fn attack(
    CrowdSize { handshakes, deaf }: CrowdSize,
    connected: &Arc<Connected>,
    targets: &[SocketAddr],
    tokens: Option<&TokenKey>,
) {
    let (handshakes, clients) = (handshakes as u32, (handshakes + deaf) as u32);
    let mut attackers = JoinSet::new();
    for (number, to) in (0..clients).zip(targets.iter().copied().cycle()) {
        let connected = Arc::clone(connected);
        let tokens = tokens.cloned();
        attackers.spawn(async move {
            sleep(Duration::from_secs_f64(f64::from(number) / CONNECTS_PER_SECOND)).await;
            if number < handshakes {
                send_slow_handshakes(source(number), to, &connected.handshakes).await;
            } else {
                let name = format!("deaf-{number}");
                let head = head(&connect_url("", &name, Wire::Native, tokens.as_ref()));
                send_without_reading(&name, &head, source(0), to, &connected.deaf).await;
            }
        });
    }
    pending::<()>().await;
}

async fn make_rooms(makers: Makers) {
    let mut attackers = JoinSet::new();
    for number in 0..makers.clients {
        let makers = makers.clone();
        attackers.spawn_local(async move { makers.attack(number).await });
    }
    pending::<()>().await;
}

/// Returns one of 50 loopback addresses, in turn.
fn source(number: u32) -> IpAddr {
    let last = u8::try_from(number % ADDRESSES).unwrap_or_default() + 1;
    Ipv4Addr::new(127, 0, 0, last).into()
}

async fn send_slow_handshakes(from: IpAddr, to: SocketAddr, connected: &Headcount) {
    let head = head(&connect_url("", "slow", Wire::Native, None));
    loop {
        if let Ok(mut stream) = connect(from, to, None).await {
            let _connected = Headcount::clone(connected);
            let mut ticks = interval(BYTE_INTERVAL);
            for byte in head.bytes() {
                tokio::select! {
                    _ = ticks.tick() => if stream.write_all(&[byte]).await.is_err() { break },
                    // The request is incomplete, so readability means a close.
                    _ = stream.readable() => break,
                }
            }
        } else {
            sleep(RETRY_DELAY).await;
        }
    }
}

/// Runs a client that sends to itself and reads nothing, neither the upgrade's answer nor a close.
async fn send_without_reading(name: &str, head: &str, from: IpAddr, to: SocketAddr, connected: &Headcount) {
    let text = format!(r#"{{"type":"signal","to":"{name}","data":"{}"}}"#, "x".repeat(MESSAGE_BYTES));
    let mut frame = Frame::message(text, OpCode::Data(Data::Text), true);
    // A mask of zeros changes nothing.
    frame.header_mut().mask = Some([0; 4]);
    let mut text = Vec::new();
    // Writing to a vector cannot fail.
    let _ = frame.format(&mut text);
    loop {
        if let Ok(mut stream) = connect(from, to, Some(RECEIVE_BUFFER)).await {
            let _connected = Headcount::clone(connected);
            let mut ticks = interval(MESSAGE_INTERVAL);
            let mut written = stream.write_all(head.as_bytes()).await;
            while written.is_ok() {
                ticks.tick().await;
                written = stream.write_all(&text).await;
            }
        }
        sleep(RETRY_DELAY).await;
    }
}

async fn connect(from: IpAddr, to: SocketAddr, receive_buffer: Option<u32>) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(bytes) = receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(SocketAddr::new(from, 0))?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn head(target: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: mesh\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_addresses_come_in_turn_and_sizes_are_averaged() {
        let sources = [0, 1, 49, 50].map(|number| source(number).to_string());
        assert_eq!(sources, ["127.0.0.1", "127.0.0.2", "127.0.0.50", "127.0.0.1"]);

        let size = |handshakes, deaf| CrowdSize { handshakes, deaf };
        assert_eq!(CrowdSize::mean(&[size(10.0, 4.0), size(20.0, 8.0)]), size(15.0, 6.0));
        assert_eq!(CrowdSize::mean(&[]), CrowdSize::default());
        let failures: Vec<_> = size(7.0, 10.0).failures(size(10.0, 10.0)).collect();
        assert_eq!(failures, ["only 7 of 10 handshakes were connected"]);
    }
}
