//! A stand-in of a Kubernetes API server for tests, on its own loopback port.
//!
//! It serves `list` and `watch` of EndpointSlices in any namespace. It supports label selectors of
//! the form `KEY=VALUE`, versions that rise with each change, bookmarks each second,
//! `timeoutSeconds`, and expired versions. It ignores other parameters, such as `limit`. Tests
//! change its objects, make it fail ([`Fault`]), stop and start it again. It records all requests
//! in RBAC terms ([`Asked`]). It answers a wrong token with 401 and any other path with 404, like a
//! server without the resource.
//!
//! It is for tests only: it panics on invalid use, such as outside of a Tokio runtime. A watch
//! without `resourceVersion` or `timeoutSeconds` breaks its connection, as does a selector without
//! `=`.
//!
//! | module | responsibility |
//! |---|---|
//! | [`asked`] | requests in RBAC terms |
//! | [`pods`] | EndpointSlices in the form of the controller |
//! | `store` | objects, versions and history, without I/O |
//! | `serve` | HTTP |
//! | `watching` | one watch |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

pub mod asked;
pub mod pods;
mod serve;
mod store;
mod watching;

use std::net::SocketAddr;
use std::path::Path;

use serde_json::json;
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

pub use asked::Asked;
pub use pods::{Pod, Slice};
use store::Store;

/// The token in the kubeconfig, required in requests.
pub(crate) const TOKEN: &str = "stand-in-token";
const BACKLOG: u32 = 64;

/// A running stand-in, which ends when dropped.
pub struct ApiServer {
    shared: Shared,
    address: SocketAddr,
    /// Keeps the port while the server is stopped: bound, but not listening.
    _reserved: TcpSocket,
    /// `None` while the server is stopped.
    serving: Option<AbortOnDropHandle<()>>,
}

/// Failure of lists and watches. Lists support only `Status` and `Hang`, and break their connection
/// on the others. `Status` and `Hang` do not affect open watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An answer with this HTTP status (100 to 999), and a `Status` object.
    Status(u16),
    /// No answer, also after the fault; the connection stays open.
    Hang,
    /// A watch that sends nothing and never ends, even after the fault. Open ones fall silent.
    Silent,
    /// A watch that ends in good order as soon as it has begun. Open watches end too.
    EndsAtOnce,
    /// A watch that ends in good order within the line of its next event. Open ones do so too.
    Truncated,
    /// A watch whose connection breaks in the middle of a line. Open watches break at once.
    Cut,
}

/// State shared by the handle and all connections.
pub(crate) type Shared = watch::Sender<State>;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) store: Store,
    /// Failure of later lists; `None` means success.
    pub(crate) list_fault: Option<Fault>,
    /// Failure of open and later watches; `None` means success.
    pub(crate) watch_fault: Option<Fault>,
    /// Number of calls of [`ApiServer::ends_watches`]. A watch ends when it has changed.
    pub(crate) era: u64,
    asked: Vec<Asked>,
}

impl ApiServer {
    /// Starts a server without objects or faults, on a free port.
    pub async fn start() -> Self {
        let reserved = socket();
        reserved.bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = reserved.local_addr().unwrap();
        let mut server = Self { shared: Shared::default(), address, _reserved: reserved, serving: None };
        server.comes_back();
        server
    }

    /// Cuts all connections and refuses new ones.
    pub fn goes_away(&mut self) {
        self.serving = None;
    }

    /// Accepts connections again on the same port. Objects, versions and faults are kept.
    pub fn comes_back(&mut self) {
        let socket = socket();
        socket.bind(self.address).unwrap();
        let serving = serve::serve(socket.listen(BACKLOG).unwrap(), self.shared.clone());
        self.serving = Some(AbortOnDropHandle::new(tokio::spawn(serving)));
    }

    /// Writes a kubeconfig for this server, with the right token. Panics if `path` is not writable.
    pub fn write_kubeconfig(&self, path: &Path) {
        // JSON is valid YAML.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "stand-in", "cluster": { "server": format!("http://{}", self.address) } }],
            "users": [{ "name": "server", "user": { "token": TOKEN } }],
            "contexts": [{ "name": "test", "context": { "cluster": "stand-in", "user": "server" } }],
            "current-context": "test",
        });
        std::fs::write(path, config.to_string()).unwrap();
    }

    /// Adds a slice, or replaces the slice of this name.
    pub fn put(&self, slice: &Slice) {
        self.shared.send_modify(|state| state.store.put(slice.to_json()));
    }

    /// Deletes a slice. Panics without a slice of this name.
    pub fn delete(&self, namespace: &str, name: &str) {
        self.shared.send_modify(|state| state.store.delete(namespace, name));
    }

    /// Makes all later lists and watches fail, and open watches as the [`Fault`] describes.
    /// Replaces an earlier fault.
    pub fn fails(&self, fault: Fault) {
        self.shared.send_modify(|state| (state.list_fault, state.watch_fault) = (Some(fault), Some(fault)));
    }

    /// Makes watches fail, as [`Self::fails`] does. Lists succeed from now on.
    pub fn watches_fail(&self, fault: Fault) {
        self.shared.send_modify(|state| (state.list_fault, state.watch_fault) = (None, Some(fault)));
    }

    /// Ends all failures, except hanging requests and silent watches that have begun.
    pub fn recovers(&self) {
        self.shared.send_modify(|state| (state.list_fault, state.watch_fault) = (None, None));
    }

    /// Ends all open watches in good order, except silent and hanging ones.
    pub fn ends_watches(&self) {
        self.shared.send_modify(|state| state.era += 1);
    }

    /// Drops the history and raises the version. Open watches, and later ones of an earlier
    /// version, end by an `ERROR` event of code 410.
    pub fn expires(&self) {
        self.shared.send_modify(|state| state.store.compact());
    }

    /// Drops all objects and restarts versions at 0, as a restore from an old backup. A watch of a
    /// higher version ends by an `ERROR` event of code 410.
    pub fn forgets_all(&self) {
        self.shared.send_modify(|state| state.store = Store::default());
    }

    /// Returns all requests since [`Self::start`], also refused ones, the oldest first.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.borrow().asked.clone()
    }
}

/// Returns a socket without an address. Several may bind one port, of which at most one listens.
fn socket() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.set_reuseport(true).unwrap();
    socket
}
