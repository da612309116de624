//! For tests: a stand-in of a Kubernetes API server, on a port of its own on loopback.
//!
//! It knows EndpointSlices of any namespace, and of what the real one speaks about them `list` and `watch`: selectors by label,
//! versions that rise with each change, bookmarks, `timeoutSeconds`, versions that expire. For whoever writes them there are
//! `patch`, as server-side apply does it, and `delete`. It fails as it is told ([`Fault`]), goes away and comes back, and
//! remembers what it was asked in the words of RBAC ([`Asked`]). A wrong token is answered 401, anything else 404, as by a
//! server without the resource.
//!
//! Not for the world outside of tests: it panics on what a test should not do.
//!
//! | module | idea |
//! |---|---|
//! | [`asked`] | a request in the words of RBAC |
//! | [`fault`] | how lists and watches may fail |
//! | [`pods`] | EndpointSlices as the controller would write them |
//! | `store` | objects, versions and history; pure |
//! | `serve` | HTTP |
//! | `watching` | one watch |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

pub mod asked;
pub mod fault;
pub mod pods;
mod serve;
mod store;
mod watching;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

pub use asked::Asked;
pub use fault::{Expiry, Fault, Faults};
pub use pods::{Pod, Slice};
use store::Store;

/// What the kubeconfig says, and requests must.
pub(crate) const TOKEN: &str = "stand-in-token";
/// Connections that wait to be accepted.
const BACKLOG: u32 = 64;

/// A running stand-in; it ends when dropped.
pub struct ApiServer {
    shared: Shared,
    address: SocketAddr,
    /// Keeps the port while the server is away: bound, but not listening.
    _reserved: TcpSocket,
    serving: Option<AbortOnDropHandle<()>>,
}

/// What the handle and all connections share.
#[derive(Clone)]
pub(crate) struct Shared {
    state: Arc<Mutex<State>>,
    /// Says that the state has changed.
    changed: watch::Sender<()>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) faults: Faults,
    pub(crate) expiry: Expiry,
    /// Watches begun before this number have to end.
    pub(crate) era: u64,
    asked: Vec<Asked>,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(crate) fn remember(&self, asked: Asked) {
        self.state().asked.push(asked);
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changed.send_replace(());
        result
    }
}

impl ApiServer {
    /// Starts one without any object.
    pub async fn start() -> Self {
        let reserved = socket();
        reserved.bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = reserved.local_addr().unwrap();
        let shared = Shared { state: Arc::default(), changed: watch::Sender::new(()) };
        let mut server = Self { shared, address, _reserved: reserved, serving: None };
        server.comes_back();
        server
    }

    /// Cuts all connections and refuses new ones.
    pub fn goes_away(&mut self) {
        self.serving = None;
    }

    /// Is there again, with whatever objects it has now.
    pub fn comes_back(&mut self) {
        let listener = self.listener();
        self.serving = Some(AbortOnDropHandle::new(tokio::spawn(serve::serve(listener, self.shared.clone()))));
    }

    fn listener(&self) -> TcpListener {
        let socket = socket();
        socket.bind(self.address).unwrap();
        socket.listen(BACKLOG).unwrap()
    }

    /// Writes a kubeconfig that leads here.
    pub fn write_kubeconfig(&self, path: &Path) {
        std::fs::write(path, self.kubeconfig(TOKEN).to_string()).unwrap();
    }

    /// A kubeconfig that leads here, with this token. JSON is YAML.
    pub fn kubeconfig(&self, token: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "stand-in", "cluster": { "server": format!("http://{}", self.address) } }],
            "users": [{ "name": "server", "user": { "token": token } }],
            "contexts": [{ "name": "test", "context": { "cluster": "stand-in", "user": "server" } }],
            "current-context": "test",
        })
    }

    /// Adds a slice, or changes the one of its name.
    pub fn put(&self, slice: &Slice) {
        self.shared.change(|state| state.store.put(slice.to_json()));
    }

    /// Deletes a slice.
    pub fn delete(&self, namespace: &str, name: &str) {
        self.shared.change(|state| state.store.delete(namespace, name));
    }

    /// Fails like this from now on, until told otherwise.
    pub fn fails(&self, faults: Faults) {
        self.shared.change(|state| state.faults = faults);
    }

    /// Ends all open watches in good order.
    pub fn ends_watches(&self) {
        self.shared.change(|state| state.era += 1);
    }

    /// Forgets its history: a watch from before cannot go on, and is told so.
    pub fn expires(&self, expiry: Expiry) {
        self.shared.change(|state| {
            state.expiry = expiry;
            state.store.compact();
        });
    }

    /// Forgets all objects, versions included, as one restored from an old backup.
    pub fn forgets_all(&self) {
        self.shared.change(|state| state.store = Store::default());
    }

    /// All that it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.state().asked.clone()
    }
}

/// Several sockets may have the port, of which at most one listens.
fn socket() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.set_reuseport(true).unwrap();
    socket
}
