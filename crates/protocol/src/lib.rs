//! The protocol between clients and the mesh: messages of clients ([`client`]) and of servers
//! ([`server`], [`rooms`]), close codes ([`close`]), error codes, names ([`ids`]), limits
//! ([`limits`]) and the backoff between attempts ([`Backoff`]).
//!
//! No I/O and no clock. `PROTOCOL.md` in this crate describes the protocol for other languages.
//!
//! ```
//! use signaling_protocol::client::{self, ClientMessage};
//!
//! let text = br#"{"type":"signal","to":"bob","data":{"sdp":"v=0"},"id":1}"#;
//! let Ok(ClientMessage::Signal { to, data, .. }) = client::parse(text) else { panic!() };
//! assert_eq!((&*to, data.get()), ("bob", r#"{"sdp":"v=0"}"#));
//! ```

mod backoff;
pub mod client;
pub mod close;
mod error;
pub mod ids;
pub mod limits;
pub mod rooms;
pub mod server;

pub use backoff::Backoff;
pub use close::CloseCode;
pub use error::ErrorCode;
pub use ids::{ClientId, NameError, NodeId, RoomName};
