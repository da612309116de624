//! A crowd that means harm, and what good clients notice of it.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | the command line |
//! | `stranger` | what each of the crowd does |
//! | `crowd` | all of them, on a thread of their own: the good clients' clock is not to wait for them |
//! | `edges` | what the edges say of themselves meanwhile, and how much memory they have |

mod crowd;
mod edges;
mod options;
mod stranger;

pub(crate) use crowd::{Crowd, Present};
pub(crate) use edges::{Edges, Seen};
pub(crate) use options::HostileOptions;
