//! Views of a mesh from a static list, a watched file, DNS or Kubernetes.
//!
//! [`Source`] states where views come from, [`watch()`] follows it, and [`Discovery`] is the handle
//! that has the latest [`View`](signaling_core::View).
//!
//! A source that fails, or is suddenly empty, never takes the mesh down: the last view stays, and logs and metrics say so.
//!
//! | module | idea |
//! |---|---|
//! | [`source`] | `static:...`, `file:...`, `dns:...` and `kubernetes:...` as text |
//! | [`read_error`] | what can be wrong with a reading |
//! | [`watch`](mod@watch) | a source that is followed, as its users have it |
//! | [`settings`] | how patiently |
//! | `file`, `polling` | from a file's bytes to a view; the task that follows a file |
//! | [`dns`] | what is asked, from records to servers, and the asking |
//! | [`kubernetes`] | from EndpointSlices to servers; lists and watches |
//! | `observation`, `flap_damper` | what a source says of one server, and from that to members, without flaps |
//! | `following` | the task that follows DNS or Kubernetes |
//! | `publisher` | publishes believable views, and reports how well the source can be read |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let source = "static:node-0=127.0.0.1:7900,node-1=127.0.0.1:7901".parse()?;
//! let discovery = signaling_discovery::watch(source).await?;
//! assert_eq!(discovery.view().len(), 2);
//! # Ok(())
//! # }
//! ```

pub mod dns;
mod file;
mod flap_damper;
mod following;
pub mod kubernetes;
pub mod metrics;
mod observation;
mod polling;
mod publisher;
pub mod read_error;
pub mod settings;
pub mod source;
pub mod watch;

pub use read_error::ReadError;
pub use settings::{Settings, Subject};
pub use source::{Source, SourceError};
pub use watch::{Discovery, WatchError, watch, watch_with};
