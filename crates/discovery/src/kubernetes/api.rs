//! Access to the Kubernetes API, and the conversion of its errors, for `Watcher`.

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
    /// Time limit for a connection, for a list, or for the start of a watch.
    pub answer_timeout: Duration,
    /// Requested duration of a watch, rounded down to seconds, 1 s to 290 s.
    pub watch_duration: Duration,
    /// Time after the requested end at which a watch counts as silent.
    pub silence_grace: Duration,
    /// Time after the start of a watch at which it counts as working.
    pub proven_after: Duration,
    /// Mean interval of lists while watches work; each is 20% longer or shorter at random.
    pub resync_interval: Duration,
    /// Maximum wait after a first failure. It doubles with each further failure, until a watch
    /// works. The wait is a random time in its upper half.
    pub min_backoff: Duration,
    /// Upper limit of the maximum wait after failures.
    pub max_backoff: Duration,
}

impl Default for KubernetesSettings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            kubeconfig: None,
            answer_timeout: seconds(10),
            watch_duration: seconds(30),
            silence_grace: seconds(5),
            proven_after: seconds(5),
            resync_interval: seconds(300),
            min_backoff: Duration::from_millis(500),
            max_backoff: seconds(10),
        }
    }
}

/// Returns the API for the slices in the service's namespace. Sends nothing. An error means that
/// this process has no usable configuration for the access.
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
    config.connect_timeout = Some(settings.answer_timeout);
    config.read_timeout = Some(settings.watch_duration + settings.silence_grace + settings.answer_timeout);
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

/// Converts an error of the client: a status of the API as [`status_error`], else `NoAnswer`.
pub(super) fn read_error(error: &kube::Error) -> ReadError {
    match error {
        kube::Error::Api(status) => status_error(status),
        other => ReadError::NoAnswer(with_causes(other)),
    }
}

/// Converts a status of the API: 401 and 403 to `Refused`, others to `NoAnswer`.
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
    let causes = std::iter::successors(error.source(), |&cause| cause.source()).map(ToString::to_string);
    let join = |text: String, part: String| if text.contains(&part) { text } else { format!("{text}: {part}") };
    causes.fold(error.to_string(), join)
}
