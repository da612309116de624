//! Rooms that visitors join and leave while residents listen, one more room with a long line in front of it, and what that asks of
//! the store.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | the command line |
//! | `seating` | pure: who belongs to which room, who stays there, and who comes and goes |
//! | `words` | pure: what clients of rooms say, and what is read of what they hear |
//! | `book` | pure: each change, when it was answered, and which residents have heard of it |
//! | `line` | pure: who waits for the room with the line, and in which order they are let in |
//! | `house` | the clients: what they say by the schedule, and where what they hear is written down |
//! | `play` | the course of a run, and the report on it |
//! | `gauge`, `store` | takes readings of processes and store; pure: what the store was asked between two |

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
