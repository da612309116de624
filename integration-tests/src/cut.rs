//! A link between nodes that a test can cut.

mod who;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{Peer, TestMesh};

/// How a trunk's connection begins; all others carry forwards.
const TRUNK: &[u8] = b"GET /internal/v1/trunk";
/// Longer than the nodes take to hear of a change.
const USED_WITHIN: Duration = Duration::from_secs(10);

/// A relay in front of a node's internal listener. To the mesh it is the node's new address. Trunks always pass; what
/// other nodes send passes until it is cut. It ends when dropped.
pub struct Forwards {
    node: String,
    cut: watch::Sender<Cut>,
    connections: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

/// Whose forwards do not arrive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Nobodys,
    Everybodys,
    Of(u32),
}

impl Forwards {
    /// Puts a relay in front of a node. What changes the set of nodes later, such as a kill, undoes it.
    pub async fn to(mesh: &TestMesh, node: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let file = mesh.dir.path().join("nodes.json");
        let mut nodes: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let entry = nodes.iter_mut().find(|entry| entry["id"] == node).unwrap();
        let target: Arc<str> = entry["address"].as_str().unwrap().into();
        entry["address"] = listener.local_addr().unwrap().to_string().into();

        let (cut, cuts) = watch::channel(Cut::Nobodys);
        let connections = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&connections);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut relays = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                relays.spawn(relay(stream, Arc::clone(&target), cuts.clone(), Arc::clone(&count)));
                while relays.try_join_next().is_some() {}
            }
        });
        let renewed = file.with_extension("renewed");
        std::fs::write(&renewed, serde_json::to_vec(&nodes).unwrap()).unwrap();
        std::fs::rename(&renewed, &file).unwrap();
        Self { node: node.to_owned(), cut, connections, _tasks: tasks }
    }

    /// Has signals sent from one node to the other until they come this way.
    pub async fn until_used(&self, mesh: &TestMesh, from_node: &str) {
        let (from, to) = (mesh.id_owned_by(from_node, "probe-from"), mesh.id_owned_by(&self.node, "probe-to"));
        let mut sender = Peer::connect(&mesh.url(), &from).await;
        let mut recipient = Peer::connect(&mesh.url(), &to).await;
        let start = Instant::now();
        while self.connections.load(Ordering::Relaxed) == 0 {
            assert!(start.elapsed() < USED_WITHIN, "{from_node} still sends to the old address of {}", self.node);
            sender.signal(&to, Value::Null, Some(1)).await;
            recipient.recv_type("signal").await;
            sender.recv_type("ack").await;
        }
        sender.close().await;
        recipient.close().await;
    }

    pub fn cut(&self) {
        self.cut.send_replace(Cut::Everybodys);
    }

    pub fn cut_from(&self, pid: u32) {
        self.cut.send_replace(Cut::Of(pid));
    }

    pub fn heal(&self) {
        self.cut.send_replace(Cut::Nobodys);
    }
}

async fn relay(mut near: TcpStream, target: Arc<str>, mut cuts: watch::Receiver<Cut>, forwards: Arc<AtomicUsize>) {
    let (from, here) = (near.peer_addr().unwrap(), near.local_addr().unwrap());
    let mut first = [0; TRUNK.len()];
    if near.read_exact(&mut first).await.is_err() {
        return;
    }
    let carry = async {
        let mut far = TcpStream::connect(&*target).await?;
        far.write_all(&first).await?;
        copy_bidirectional(&mut near, &mut far).await
    };
    if first == TRUNK {
        let _ = carry.await;
    } else {
        forwards.fetch_add(1, Ordering::Relaxed);
        tokio::select! {
            biased;
            _ = cuts.wait_for(|cut| match cut {
                Cut::Nobodys => false,
                Cut::Everybodys => true,
                Cut::Of(pid) => who::has_socket(*pid, from, here),
            }) => {}
            _ = carry => {}
        }
    }
}
