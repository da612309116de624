//! The load that several scenarios share: pairs of clients exchange numbered messages at a fixed rate.
//!
//! The way of a message: the schedule says when, the clients take turns, the ledger of the pair numbers it, the socket
//! takes it. The receiver's reading task finds the numbers again, enters them in the ledger and takes the time. Of some
//! messages the sender wants to know what became of them; their answers are kept apart, and compared at the end.

mod acks;
mod books;
mod findings;
mod options;
mod part;
mod recording;
mod sender;

pub(crate) use acks::AckTotals;
pub(crate) use books::{Books, Returns, Wanted, is_break};
pub(crate) use findings::Findings;
pub(crate) use options::TrafficOptions;
pub(crate) use part::TrafficPart;
pub(crate) use recording::{Arrival, Recording};
pub(crate) use sender::Sender;
