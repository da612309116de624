//! Relays in front of servers, which hold back selected connections. Tests of network faults use
//! them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::http::host;
use crate::{TestMesh, eventually};

/// Start of a request that opens a lane, before the name of its sender.
const LANE: &[u8] = b"POST /internal/v1/lane?sender=";

/// Returns `true` for a connection whose bytes a relay holds back, like a network that drops
/// packets. The argument is the node whose lane the connection carries; `None` for others.
type IsHeld = Arc<dyn Fn(Option<&str>) -> bool + Send + Sync>;

/// A relay in front of a listener. It ends when dropped.
pub struct Relay {
    /// Address at which it accepts connections.
    pub address: SocketAddr,
    is_held: watch::Sender<IsHeld>,
    /// Nodes that have opened a lane.
    senders: Arc<Mutex<BTreeSet<String>>>,
    _tasks: JoinSet<()>,
}

impl Relay {
    /// Starts a relay to the first of these servers (`HOST:PORT`, or a URL without a path) that
    /// accepts a connection. Without one it closes its own connections. It holds nothing.
    pub async fn to(targets: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let targets: Vec<SocketAddr> = targets.iter().map(|target| host(target).parse().unwrap()).collect();
        let (is_held, holds) = watch::channel::<IsHeld>(Arc::new(|_: Option<&str>| false));
        let senders = Arc::<Mutex<BTreeSet<String>>>::default();
        let seen = Arc::clone(&senders);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut relays = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                relays.spawn(relay(stream, targets.clone(), holds.clone(), Arc::clone(&seen)));
                while relays.try_join_next().is_some() {}
            }
        });
        Self { address, is_held, senders, _tasks: tasks }
    }

    /// Puts a relay in front of a node's internal listener, as the node's new address in discovery.
    /// Later changes of the set of nodes, such as a kill, undo it.
    pub async fn to_node(mesh: &TestMesh, node: &str) -> Self {
        let mut nodes = mesh.discovery_entries();
        let entry = nodes.iter_mut().find(|entry| entry["id"] == node).unwrap();
        let relay = Self::to(&[entry["address"].as_str().unwrap()]).await;
        entry["address"] = relay.address.to_string().into();
        mesh.set_discovery_entries(&nodes);
        relay
    }

    /// Sends signals from one node to the node behind this relay until the lane between them passes
    /// through it. Panics after 60 s.
    pub async fn until_used(&self, mesh: &TestMesh, from_node: &str, to_node: &str) {
        let mut sender = mesh.peer_owned_by(from_node, "probe-from").await;
        let mut recipient = mesh.peer_owned_by(to_node, "probe-to").await;
        let is_used = async || {
            sender.signal(&recipient.id, Value::Null, Some(1)).await;
            recipient.recv_type("signal").await;
            sender.recv_type("ack").await;
            self.senders.lock().unwrap().contains(from_node)
        };
        eventually(&format!("{from_node} to send to the new address of {to_node}"), is_used).await;
        sender.close().await;
        recipient.close().await;
    }

    /// Holds back all connections, new ones too, in both directions.
    pub fn hold(&self) {
        self.is_held.send_replace(Arc::new(|_: Option<&str>| true));
    }

    /// Holds back the lanes of the nodes in `senders`, and no other connections.
    pub fn hold_lanes_of(&self, senders: &[&str]) {
        let senders: Vec<String> = senders.iter().map(ToString::to_string).collect();
        let is_held = move |sender: Option<&str>| sender.is_some_and(|sender| senders.iter().any(|it| it == sender));
        self.is_held.send_replace(Arc::new(is_held));
    }

    /// Ends holding back. Held bytes then pass.
    pub fn let_go(&self) {
        self.is_held.send_replace(Arc::new(|_: Option<&str>| false));
    }
}

async fn relay(
    mut near: TcpStream,
    targets: Vec<SocketAddr>,
    mut holds: watch::Receiver<IsHeld>,
    senders: Arc<Mutex<BTreeSet<String>>>,
) {
    let mut first = Vec::new();
    let sender = loop {
        if near.read_buf(&mut first).await.unwrap_or(0) == 0 {
            return;
        }
        let sender = sender_of(&first);
        if sender.is_some() || !first.starts_with(LANE) {
            break sender;
        }
    };
    senders.lock().unwrap().extend(sender.clone());
    let mut carry = pin!(async {
        let mut far = TcpStream::connect(&targets[..]).await?;
        far.write_all(&first).await?;
        copy_bidirectional(&mut near, &mut far).await
    });
    while holds.wait_for(|is_held| !is_held(sender.as_deref())).await.is_ok() {
        tokio::select! {
            _ = &mut carry => return,
            _ = holds.wait_for(|is_held| is_held(sender.as_deref())) => {}
        }
    }
}

/// Returns the node that opens a lane. The query names it first.
fn sender_of(request: &[u8]) -> Option<String> {
    let query = request.strip_prefix(LANE)?;
    let end = query.iter().position(|byte| *byte == b'&')?;
    String::from_utf8(query[..end].to_vec()).ok()
}
