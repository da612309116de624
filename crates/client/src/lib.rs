//! A client of the signaling mesh. It keeps one connection open, reconnects after losses, resumes
//! its session and retransmits unanswered requests. It delivers each message once.
//!
//! Both sides keep messages in custody, so they pass from application to application exactly once
//! and in order. That holds across broken sockets, crashed balancers and a change of the process.
//! The limit is the time that the mesh keeps a session, 30 s by default. After the loss of a
//! session, requests without an answer are sent again and may arrive twice.
//!
//! It is not a WebRTC stack: the application defines the meaning of the data.
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
//! | part | location |
//! |---|---|
//! | decisions, without clock or network | `src/core` |
//! | test vectors of the decisions, shared with other languages | `vectors` |
//! | times and limits, with reasons | `src/rules.rs` |
//! | I/O around the decisions | `src/driver.rs`, `src/socket.rs` |

mod client;
mod core;
mod dial;
mod driver;
mod ending;
mod event;
mod options;
mod outcome;
mod rules;
mod saved;
mod socket;

pub use client::{Client, Events};
pub use dial::{Dial, Tcp};
pub use ending::{Ending, Fault};
pub use event::{Broadcast, DepartedMember, Event, Joined, Member, Signal, State, Welcome};
pub use options::{Options, OptionsError, Token, TokenError};
pub use outcome::{Delivered, Receipt, Refusal, RequestError, SendError};
pub use saved::SavedSession;
pub use signaling_protocol::server::IceServer;
pub use signaling_protocol::{ErrorCode, NameError};
