//! Every word on a wire of the signaling mesh: what clients and servers say ([`client`], [`server`], [`rooms`], [`close`]), what
//! edges and nodes say ([`trunk`], [`grant`]), what nodes say to each other ([`forward`], [`seats`]), the names in all of them ([`ids`]), the token
//! that brings a client back to its session ([`resume`]), and the sizes and times they keep ([`limits`]). A writer gathers
//! frames in [`Batches`] until the wire takes them.
//!
//! No I/O, no clock. `PROTOCOL.md` in this crate says the client's side in full for other languages.
//!
//! ```
//! use signaling_protocol::client::{self, ClientMessage};
//!
//! let text = br#"{"type":"signal","to":"bob","data":{"sdp":"v=0"},"id":1}"#;
//! let Ok(ClientMessage::Signal { to, data, .. }) = client::parse(text) else { panic!() };
//! assert_eq!((&*to, data.get()), ("bob", r#"{"sdp":"v=0"}"#));
//! ```

mod batches;
pub mod client;
pub mod close;
pub mod codec;
mod error;
pub mod forward;
pub mod grant;
pub mod ids;
mod left;
pub mod limits;
pub mod resume;
pub mod rooms;
pub mod seats;
pub mod server;
pub mod trunk;

pub use batches::Batches;
pub use close::CloseCode;
pub use codec::DecodeError;
pub use error::ErrorCode;
pub use ids::{ClientId, Incarnation, NameError, NodeId, RoomName, SessionId};
pub use left::Left;
pub use trunk::Origin;
