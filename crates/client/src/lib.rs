//! A client of the signaling mesh. It keeps one connection to the mesh up by coming back, goes on with its session, sends
//! again what has no answer, and hands each message over once: with custody on
//! both sides, messages go from application to application exactly once and in order, also when sockets break, balancers
//! die or a process takes over from another, within the time that the mesh keeps a session (30 s unless set otherwise).
//! When a session was lost all the same, what has no answer is sent once more, and may then arrive twice.
//!
//! It is not a WebRTC stack: what the data means is the application's business.
//!
//! ```no_run
//! use signaling_client::{Client, Event, Options};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let (client, mut events) = Client::connect(Options::new("alice", ["ws://127.0.0.1:8080"])?);
//! client.signal("bob", "hello")?.await?; // bob's application has it
//! while let Some(event) = events.next().await {
//!     if let Event::Signal(signal) = event {
//!         println!("{} says {}", signal.from, signal.data);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | to see | open |
//! |---|---|
//! | what it decides, without clock or network | `src/core` |
//! | the same as examples, for other languages too | `vectors` |
//! | times and bounds, and why those | `src/rules.rs` |
//! | how decisions meet the network | `src/driver.rs`, `src/socket.rs` |

mod client;
mod core;
mod dial;
mod driver;
mod ending;
mod event;
mod options;
mod outcome;
mod receipt;
mod rules;
mod saved;
mod socket;

pub use client::{Client, Events};
pub use dial::{Dial, Tcp};
pub use ending::{Ending, Fault};
pub use event::{Broadcast, DepartedMember, Event, IceServer, Joined, Member, Signal, State, Welcome};
pub use options::{Options, OptionsError, Token, TokenError};
pub use outcome::{Delivered, Refusal, RequestError, SendError};
pub use receipt::Receipt;
pub use saved::SavedSession;
pub use signaling_protocol::{ErrorCode, NameError};
