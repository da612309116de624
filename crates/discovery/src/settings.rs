//! How patiently sources are followed. Servers use the defaults; tests shorten them.

use std::time::Duration;

use crate::dns::DnsSettings;
use crate::flap_damper::HOLD;
use crate::kubernetes::KubernetesSettings;

/// Who is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subject {
    /// The nodes of the mesh: one that is not ready does not serve.
    #[default]
    Nodes,
    /// Servers that ask each other how they are, ready or not. They have no metrics.
    Peers,
}

/// How a source is followed.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who is followed.
    pub subject: Subject,
    /// How long a node stays in the view though it is unready, or named no more without having said that it ends. Of
    /// sources that name nodes one by one: `kubernetes` and `dns`.
    pub hold: Duration,
    /// How the Kubernetes API is asked.
    pub kubernetes: KubernetesSettings,
    /// How DNS is asked.
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
