//! Load on rooms: visitors join and leave while residents listen. One more room has a long waiting
//! queue. The load on the store is measured.
//!
//! | module | responsibility |
//! |---|---|
//! | `options` | command line |
//! | `seating` | pure: assignment of clients to rooms, as residents or visitors |
//! | `words` | pure: texts of room clients, and parsed events |
//! | `book` | pure: each change, its answer, and the residents that received it |
//! | `line` | pure: the waiting queue and its order of admission |
//! | `house` | the clients: scheduled requests, and records of events |
//! | `play` | the course of a run, and its report |
//! | `gauge`, `store` | readings of processes and store; pure: load of the store between two |

mod book;
mod gauge;
mod house;
mod line;
mod options;
mod play;
mod seating;
mod store;
mod words;

pub(crate) use options::Options;
pub(crate) use play::play;
