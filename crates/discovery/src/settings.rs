//! Kind and timing of a source, for [`crate::watch_with`]. Servers use the default times.

use std::time::Duration;

use crate::dns::DnsSettings;
use crate::flap_damper::HOLD;
use crate::kubernetes::KubernetesSettings;

/// Kind of servers that a source lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Nodes of the mesh. An unready node does not count as serving.
    Nodes,
    /// Peers, without metrics: unready ones count as serving, terminating ones as draining.
    Peers,
}

/// Settings for following a source.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Kind of servers that the source lists.
    pub subject: Subject,
    /// Time that a node stays in the view while it is unready or no longer listed, 4 s by default.
    /// A draining node leaves once it is not listed. For the sources `kubernetes` and `dns`.
    pub hold: Duration,
    /// Access to the Kubernetes API and its times, for `kubernetes`.
    pub kubernetes: KubernetesSettings,
    /// DNS servers and times of queries, for `dns`.
    pub dns: DnsSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            subject: Subject::Nodes,
            hold: HOLD,
            kubernetes: KubernetesSettings::default(),
            dns: DnsSettings::default(),
        }
    }
}
