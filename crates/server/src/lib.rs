//! What both servers share: configuration, telemetry, health, admin listener, signals, staged shutdown.
//!
//! A server runs its data plane on one thread: a current-thread runtime with a `LocalSet`, one local task a connection that
//! speaks HTTP or is a trunk. So nothing here asks a connection's service to be `Send`. What this crate is not: it knows no trunk, no client and no room.
//!
//! | module | idea |
//! |---|---|
//! | [`config`] | settings into a checked [`Common`] |
//! | [`config_file`] | settings from flags, environment and a file; checking and printing them |
//! | [`secret`] | secrets: read from files, compared in constant time, never printed |
//! | [`secrets`] | the mesh's secrets, and how they are changed while it runs |
//! | [`telemetry`] | logs, and the page of metrics |
//! | [`metrics`] | metrics of every server |
//! | [`process`] | what the operating system says of this process |
//! | [`health`] | `/livez`, `/readyz`, `/metrics` |
//! | [`load_readiness`] | unready while it has far more clients than its peers |
//! | [`server_client`] | requests to the other servers: bounds, deadlines, missing answers |
//! | [`mesh_status`] | status of this server, and of all servers |
//! | [`dashboard`] | the page that shows the status of all servers |
//! | [`auth`] | who may speak on the internal listener |
//! | [`admin`] | the guarded routes under `/admin` |
//! | [`ask`] | questions to what lives on the server's own thread |
//! | [`switch`] | an operator takes a server out of service and puts it back |
//! | [`listener`] | binding, and accepting through a shortage of descriptors |
//! | [`http`] | serving one connection within limits; refusals; taking the socket back after an upgrade |
//! | [`shutdown`] | signals, and the phases they lead to |
//! | [`mod@runtime`], [`gather`] | the thread that does it all, and lets input gather while it is busy |
//! | [`pause_detector`] | detection of process pauses |
//! | [`limits`] | the limit of open files |
//! | [`trunk`] | carrying batches over a trunk's WebSocket, both ends alike |
//! | [`wake`] | when a writer has something to carry |
//! | [`unix_time`] | the time of day |
//! | [`FileWatcher`] | noticing that files have changed |
//! | [`ReloadableFile`] | a file that is read again when it changes |
//!
//! The life of a server, in order: parse and check the flags, [`telemetry::start`], [`limits::raise_open_files`],
//! [`Shutdown::install`], [`Listener::bind`], ready; on the first signal unready and draining, and stopped when drained.

pub mod admin;
pub mod ask;
pub mod auth;
pub mod coalescer;
pub mod config;
pub mod config_file;
pub mod dashboard;
mod file_watcher;
pub mod flush_signal;
pub mod health;
pub mod http;
pub mod limits;
pub mod listener;
pub mod load_readiness;
pub mod mesh_status;
pub mod metrics;
pub mod pause_detector;
pub mod process;
mod reloadable_file;
pub mod runtime;
pub mod secret;
pub mod secrets;
pub mod server_client;
pub mod shutdown;
pub mod switch;
pub mod telemetry;
pub mod trunk;
mod unix_time;

pub use config::{Common, CommonArgs, ConfigError};
pub use file_watcher::FileWatcher;
pub use flush_signal::FlushSignal;
pub use health::Health;
pub use listener::Listener;
pub use pause_detector::PauseDetector;
pub use reloadable_file::ReloadableFile;
pub use secret::Secret;
pub use secrets::Secrets;
pub use shutdown::{Phase, Shutdown};
pub use switch::DrainSwitch;
pub use unix_time::unix_time;
