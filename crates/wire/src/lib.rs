//! Messages between the servers of a mesh. An edge and a node exchange the frames of a [`trunk`],
//! some with a [`grant`]. Two nodes exchange the items of [`forward`], some with [`seats`], by a
//! [`lane`]. A [`resume`] token proves to a node that a client owns a session.
//!
//! [`codec`] reads and writes the bytes, [`Batches`] collects frames for a connection, and
//! [`limits`] has sizes and times, [`rate`] token buckets. A [`Counter`] makes numbers that order
//! events of different servers. No I/O and no clock. Client messages:
//! `signaling-protocol`.

mod batches;
pub mod codec;
mod counter;
mod credential;
mod elapsed;
pub mod forward;
pub mod grant;
mod ids;
pub mod lane;
pub mod limits;
mod numbers;
#[cfg(test)]
mod properties;
pub mod rate;
mod rate_debts;
mod remaining_ttl;
pub mod resume;
pub mod seats;
pub mod trunk;

pub use batches::Batches;
pub use codec::DecodeError;
pub use counter::Counter;
pub use credential::Credential;
pub use elapsed::Elapsed;
pub use ids::{Incarnation, SessionId, SocketId};
pub use numbers::{BatchNumber, DownSeq, ExchangeNumber, MessageNumber, Rank, RoomRequestId, Seq};
pub use rate_debts::RateDebts;
pub use remaining_ttl::RemainingTtl;
pub use trunk::Origin;
