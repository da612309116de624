//! Visitors come, say something, and leave, again and again; and what the servers keep of them when all have left.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | the command line |
//! | `visits` | lets the visitors come at a fixed rate |
//! | `stock` | what each process of the mesh has; pure: what it has more of than before |
//! | `report` | all of it, and what speaks against the servers |

mod options;
mod report;
mod stock;
mod visits;

pub(crate) use options::ChurnOptions;
pub(crate) use report::Report;
pub(crate) use stock::{Leftover, Stock, complaints, settle, table};
pub(crate) use visits::{ChurnPart, receive};
