//! Views of a mesh from a static list, a watched file, DNS or Kubernetes.
//!
//! [`Source`] states the origin of views, [`watch()`] follows it, and [`Discovery`] is the handle
//! with the latest [`View`](signaling_membership::View).
//! A failed or suddenly empty source never takes the mesh down: the last view stays, and logs and
//! metrics report the fault. Each source converts its data to observations of servers. `FlapDamper`
//! turns them into members, and `Publisher` publishes views unless they are suddenly empty.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let source = "static:node-0=127.0.0.1:7900,node-1=127.0.0.1:7901".parse()?;
//! let discovery = signaling_discovery::watch(source).await?;
//! assert_eq!(discovery.subscribe().borrow().len(), 2);
//! # Ok(())
//! # }
//! ```

pub mod dns;
mod file;
mod flap_damper;
mod following;
pub mod kubernetes;
pub mod metrics;
mod publisher;
pub mod settings;
pub mod source;
pub mod watch;

pub use file::read_bounded;
pub use settings::{Settings, Subject};
pub use source::{ReadError, Source, SourceError};
pub use watch::{Discovery, watch, watch_with};
