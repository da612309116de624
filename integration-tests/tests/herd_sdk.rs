//! A thousand SDK clients that lose their sockets at the same instant do not come back at the same instant.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use signaling_client::{Client, Dial, Ending, Event, Options, State, Tcp};
use signaling_integration_tests::TestMesh;
use signaling_load::raise_descriptor_limit;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

const CLIENTS: usize = 1_000;
/// The balancer's own, clients a second.
const ACCEPT_RATE: usize = 2_000;
/// The spread of the first tries.
const BASE: Duration = Duration::from_secs(1);
/// In which tries are counted.
const WINDOW: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_thousand_clients_cut_at_once_come_back_slower_than_the_balancer_takes_them() {
    raise_descriptor_limit().unwrap();
    let rate = format!("--accept-rate={ACCEPT_RATE}");
    let mesh = TestMesh::with(|options| options.balancer_args = vec![rate]).await;
    let network = Network::default();
    let (arrivals, arrived) = watch::channel(0);
    let arrivals = Arc::new(arrivals);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let options = Options::new(&format!("client-{number}"), [mesh.url()]).unwrap();
        clients.spawn(come_back(options, network.clone(), Arc::clone(&arrivals)));
    }
    let mut all = arrived.clone();
    timeout(PATIENCE, all.wait_for(|count| *count == CLIENTS)).await.expect("not all have connected").unwrap();

    let cut_at = Instant::now();
    network.cut();

    while let Some(resumed) = timeout(PATIENCE, clients.join_next()).await.expect("not all have come back") {
        assert!(resumed.unwrap(), "a session was lost");
    }
    let tries: Vec<Duration> = network.dialed_since(cut_at);
    assert_eq!(tries.len(), CLIENTS, "each comes back with its first try");
    let late = tries.iter().filter(|after| **after > BASE + WINDOW).count();
    assert!(late < CLIENTS / 20, "{late} came back later than they should");
    let busiest = tries.iter().map(|from| tries.iter().filter(|at| (*from..*from + WINDOW).contains(at)).count()).max();
    let rate = busiest.unwrap() * 4;
    println!("at most {rate} tries a second, in {WINDOW:?}");
    assert!(rate < ACCEPT_RATE, "{rate} tries a second");
}

/// Connects, loses its socket once, and comes back. Whether to the same session.
async fn come_back(options: Options, network: Network, arrivals: Arc<watch::Sender<usize>>) -> bool {
    let (_client, mut events) = Client::connect_by(options, network);
    events.connected().await.unwrap();
    arrivals.send_modify(|count| *count += 1);
    loop {
        match events.next().await.unwrap() {
            Event::State(State::Waiting { why: Ending::Refused { status, .. }, .. }) => panic!("refused with {status}"),
            Event::State(State::Connected(welcome)) => return welcome.resumed,
            _ => {}
        }
    }
}

/// TCP of which all connections can be cut at once.
#[derive(Clone, Default)]
struct Network {
    cut: Arc<Mutex<CancellationToken>>,
    dials: Arc<Mutex<Vec<Instant>>>,
}

impl Network {
    fn cut(&self) {
        std::mem::take(&mut *self.cut.lock().unwrap()).cancel();
    }

    fn dialed_since(&self, start: Instant) -> Vec<Duration> {
        self.dials.lock().unwrap().iter().filter_map(|at| at.checked_duration_since(start)).collect()
    }
}

impl Dial for Network {
    type Stream = Cuttable;

    async fn dial(&self, url: &Uri) -> io::Result<Cuttable> {
        self.dials.lock().unwrap().push(Instant::now());
        let cut = self.cut.lock().unwrap().clone().cancelled_owned();
        Ok(Cuttable { stream: Tcp.dial(url).await?, cut: Box::pin(cut) })
    }
}

/// A stream that ends when the network is cut.
struct Cuttable {
    stream: TcpStream,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl AsyncRead for Cuttable {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Cuttable {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
