//! Access to the Kubernetes API, and the meaning of its errors.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use super::ServicePort;
use crate::{ReadError, SourceError};

/// Settings of the access to the Kubernetes API.
#[derive(Debug, Clone)]
pub struct KubernetesSettings {
    /// Path of the kubeconfig. `None`: `KUBECONFIG`, `~/.kube/config` or the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Time limit for a list, or for the start of a watch.
    pub answer: Duration,
    /// Requested duration of a watch, at most 290 s.
    pub watch: Duration,
    /// Time after the requested end at which a watch counts as silent.
    pub grace: Duration,
    /// Time after which a watch counts as working.
    pub proven: Duration,
    /// Interval of lists while the watch works.
    pub resync: Duration,
    /// Maximum wait after a first failure. It doubles with each further failure; half of it is
    /// random.
    pub backoff: Duration,
    /// Upper limit of that wait.
    pub longest_backoff: Duration,
}

impl Default for KubernetesSettings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            kubeconfig: None,
            answer: seconds(10),
            watch: seconds(30),
            grace: seconds(5),
            proven: seconds(5),
            resync: seconds(300),
            backoff: Duration::from_millis(500),
            longest_backoff: seconds(10),
        }
    }
}

/// Returns the API for the slices in the service's namespace.
pub(super) async fn connect(
    service: &ServicePort,
    settings: &KubernetesSettings,
) -> Result<Api<EndpointSlice>, SourceError> {
    let bad_kubeconfig = |error| SourceError(format!("the kubeconfig is invalid: {error}"));
    let mut config = match &settings.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(bad_kubeconfig)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(bad_kubeconfig)?
        }
        None => Config::infer().await.map_err(|error| {
            let advice = "run in a pod with a service account token, or set KUBECONFIG";
            SourceError(format!("no access to the Kubernetes API: {advice} ({error})"))
        })?,
    };
    // Only this crate decides on waits and retries, where they are logged.
    config.default_retry = false;
    config.connect_timeout = Some(settings.answer);
    config.read_timeout = Some(settings.watch + settings.grace + settings.answer);
    config.reset_reader_on_write = true;
    if config.cluster_url.scheme_str() == Some("http") {
        // Plain HTTP, as behind `kubectl proxy`. Otherwise the client would need the system's
        // certificates, which an image with only one binary lacks.
        config.root_cert.get_or_insert_default();
    }
    let client = Client::try_from(config)
        .map_err(|error| SourceError(format!("the configuration of the Kubernetes API is invalid: {error}")))?;
    Ok(Api::namespaced(client, &service.namespace))
}

/// Converts an API error.
pub(super) fn read_error(error: &kube::Error) -> ReadError {
    match error {
        kube::Error::Api(status) => status_error(status),
        other => ReadError::NoAnswer(with_causes(other)),
    }
}

pub(super) fn status_error(status: &kube::core::Status) -> ReadError {
    let text = format!("{} {} {}", status.code, status.reason, status.message);
    match status.code {
        401 | 403 => ReadError::Refused(format!(
            "{text}; a Role must let this server's ServiceAccount list and watch endpointslices of discovery.k8s.io"
        )),
        _ => ReadError::NoAnswer(text),
    }
}

/// Joins the messages of an error and its causes, since each message covers only its own part.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}
