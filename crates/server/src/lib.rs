//! Shared parts of both servers: configuration, telemetry, health, admin API, listeners, shutdown.
//!
//! A server runs its data plane on one thread: a current-thread runtime with a `LocalSet`. Each
//! HTTP connection and accepted trunk has a local task, so services need not be `Send`.
//!
//! Order of a server's life: [`config_file::load`], [`telemetry::start`], [`Shutdown::install`],
//! [`process::raise_open_files`], [`Listener::bind`], ready. [`runtime`] executes the first three
//! steps, and the `run` of each server the others. The first signal makes the server unready and
//! drains it; a drained server stops.

pub mod admin;
pub mod admin_token;
pub mod auth;
pub mod clock;
pub mod coalescer;
pub mod config;
pub mod config_file;
pub mod dashboard;
mod file_watcher;
pub mod flush_signal;
pub mod hash_seed;
pub mod health;
pub mod http;
pub mod listener;
pub mod load_readiness;
pub mod local_calls;
pub mod mesh_secret;
pub mod mesh_status;
pub mod metrics;
pub mod pause_detector;
pub mod process;
pub mod proofs;
mod reloadable_file;
mod root_key;
pub mod runtime;
pub mod secrets;
pub mod server_client;
pub mod shutdown;
pub mod telemetry;
#[cfg(test)]
mod testing;
pub mod trunk;
mod turn_end;

pub use admin_token::AdminToken;
pub use clock::unix_time;
pub use config::{Common, CommonArgs, ConfigError};
pub use file_watcher::FileWatcher;
pub use flush_signal::FlushSignal;
pub use hash_seed::HashSeed;
pub use health::Health;
pub use listener::{Listener, SharedPort};
pub use mesh_secret::MeshSecret;
pub use pause_detector::PauseDetector;
pub use reloadable_file::ReloadableFile;
pub use secrets::Secrets;
pub use shutdown::Shutdown;
