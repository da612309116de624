//! Declares a crate's metrics by `metrics!`, and encodes the registry of this process as text.

use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::prometheus_text::encode as encode_registry;
use prometheus_client::registry::{Metric, Registry};

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

/// Declares a public struct of metrics, each with type, name and help, and its `pub(crate)`
/// instance `METRICS`. The instance joins the page of this process at its first use.
#[macro_export]
macro_rules! metrics {
    ($(#[$doc:meta])* pub struct $name:ident { $($field:ident: $type:ty = $metric:literal, $help:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name { $(pub(crate) $field: $type,)* }

        impl $name {
            /// Adds new metrics to a registry, each at 0. A second call with it repeats all series.
            #[must_use]
            pub fn register(registry: &mut $crate::Registry) -> Self {
                Self { $($field: $crate::register(registry, $metric, $help),)* }
            }
        }

        pub(crate) static METRICS: std::sync::LazyLock<$name> =
            std::sync::LazyLock::new(|| $crate::in_process($name::register));
    };
}

/// Adds a metric to a registry, and returns it at 0. `name` includes the `_total` of counters, and
/// `help` has no final period: the library appends both. A repeated name is twice on the page.
pub fn register<M: Metric + Default + Clone>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name.trim_end_matches("_total"), help, metric.clone());
    metric
}

/// Calls `register` with the registry of this process, and returns its result. `register` must not
/// call this or [`encode`]: the registry is locked, so the call would never return or would panic.
pub fn in_process<T>(register: impl FnOnce(&mut Registry) -> T) -> T {
    register(own().get_or_insert_default())
}

/// Returns this process's page in Prometheus' text format; empty before the first [`in_process`].
pub fn encode() -> String {
    own().as_ref().map(page).unwrap_or_default()
}

/// Returns the page of a registry in Prometheus' text format.
pub fn page(registry: &Registry) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail, and `Publish` keeps gauges within the range of `i64`.
    let _ = encode_registry(&mut page, registry);
    page
}

fn own() -> MutexGuard<'static, Option<Registry>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}
