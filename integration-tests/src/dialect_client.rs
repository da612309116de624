//! A mesh that serves all dialects, and a raw client of any of them.

use serde_json::Value;
use signaling_dialects::Dialect;

use crate::raw_socket::{TEXT, frame};
use crate::{Head, RawSocket, TestMesh, host};

/// Returns the flag that enables all dialects.
fn all_dialects() -> String {
    format!("--dialects={}", Dialect::ALL.map(Dialect::as_str).join(","))
}

impl TestMesh {
    /// Starts two balancers and three nodes with all dialects and these flags of balancers. Returns
    /// the balancers' client addresses too, `HOST:PORT`.
    pub async fn with_dialects(flags: &[&str]) -> (Self, [String; 2]) {
        let mesh = Self::with_servers((3, 2), &[], &[&[&*all_dialects()], flags].concat()).await;
        let addresses: Vec<_> = mesh.state().balancers.iter().map(|balancer| host(&balancer.url).to_owned()).collect();
        (mesh, addresses.try_into().unwrap())
    }

    /// Starts a node and a balancer with all dialects.
    pub async fn small_with_dialects() -> Self {
        Self::with_servers((1, 1), &[], &[&all_dialects()]).await
    }
}

/// A client of a dialect.
pub struct DialectClient {
    pub socket: RawSocket,
    /// Id from the server; empty until a test reads it.
    pub id: String,
}

impl DialectClient {
    /// Opens a WebSocket to `target`, a path with a query. Panics if the server refuses it.
    pub async fn open(address: &str, target: &str) -> Self {
        Self { socket: RawSocket::open(address, &Head::upgrade(target)).await, id: String::new() }
    }

    /// Opens a client and reads its id from this field of the first message.
    pub async fn with_id(address: &str, target: &str, field: &str) -> Self {
        let mut client = Self::open(address, target).await;
        let welcome = client.receive().await;
        client.id = text(&welcome, field);
        client
    }

    /// Sends a message as a text frame.
    pub async fn send(&mut self, message: Value) {
        self.send_as(TEXT, &message.to_string()).await;
    }

    /// Sends text in a frame with this first byte, such as [`TEXT`].
    pub async fn send_as(&mut self, first: u8, text: &str) {
        self.socket.send(&frame(first, text.as_bytes())).await;
    }

    /// Returns the next message. Panics if no frame arrives within 15 s, or on a close frame.
    pub async fn receive(&mut self) -> Value {
        self.socket.message().await
    }

    /// Asserts that this is the next message.
    pub async fn gets(&mut self, expected: Value) {
        assert_eq!(self.receive().await, expected);
    }
}

/// Returns a message's field. Panics if it is not a string.
pub fn text(message: &Value, field: &str) -> String {
    message[field].as_str().unwrap_or_else(|| panic!("no {field} in {message}")).to_owned()
}
