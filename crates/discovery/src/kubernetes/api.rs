//! How the Kubernetes API is asked, and what its errors mean.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Api, Client, Config};

use super::ServicePort;
use crate::ReadError;

/// How the Kubernetes API is asked.
#[derive(Debug, Clone)]
pub struct KubernetesSettings {
    /// The kubeconfig to use. Without: what `KUBECONFIG` names, or `~/.kube/config`, or what a pod's service account has.
    pub kubeconfig: Option<PathBuf>,
    /// How long a list, or the beginning of a watch, may take.
    pub answer: Duration,
    /// How long a watch is asked to last, at most 290 seconds.
    pub watch: Duration,
    /// A watch that has not ended so long after it should have is silent.
    pub grace: Duration,
    /// A watch that has lasted so long is in good order.
    pub proven: Duration,
    /// After so long there is a list though the watch works.
    pub resync: Duration,
    /// How long to wait after a first failure, doubling with each further one, half of it drawn.
    pub backoff: Duration,
    /// How long to wait at most.
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

/// Why the Kubernetes API cannot be asked at all.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// Neither a kubeconfig nor a service account.
    #[error(
        "no way to the Kubernetes API is known: run in a pod with a service account token, or set KUBECONFIG ({0})"
    )]
    NoConfig(#[from] Box<InferConfigError>),
    /// The kubeconfig does not serve.
    #[error("the kubeconfig does not serve: {0}")]
    Kubeconfig(#[from] Box<KubeconfigError>),
    /// What the configuration says cannot be used.
    #[error("the configuration of the Kubernetes API does not serve: {0}")]
    Client(#[from] Box<kube::Error>),
}

/// Where the slices of a service's namespace can be asked for.
pub(super) async fn connect(
    service: &ServicePort,
    settings: &KubernetesSettings,
) -> Result<Api<EndpointSlice>, KubernetesError> {
    let mut config = match &settings.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(Box::new)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(Box::new)?
        }
        None => Config::infer().await.map_err(Box::new)?,
    };
    // Waits and retries are decided here alone, where they can be seen.
    config.default_retry = false;
    config.connect_timeout = Some(settings.answer);
    config.read_timeout = Some(settings.watch + settings.grace + settings.answer);
    config.reset_reader_on_write = true;
    if config.cluster_url.scheme_str() == Some("http") {
        // As behind `kubectl proxy`. Else the system's certificates would be wanted, which an image of one binary has not.
        config.root_cert.get_or_insert_default();
    }
    let client = Client::try_from(config).map_err(Box::new)?;
    Ok(Api::namespaced(client, &service.namespace))
}

/// What an error of the API means.
pub(super) fn trouble(error: &kube::Error) -> ReadError {
    match error {
        kube::Error::Api(status) => status_trouble(status),
        other => ReadError::NoAnswer(with_causes(other)),
    }
}

pub(super) fn status_trouble(status: &kube::core::Status) -> ReadError {
    let text = format!("{} {} {}", status.code, status.reason, status.message);
    match status.code {
        401 | 403 => ReadError::Refused(format!(
            "{text}; a Role must let this server's ServiceAccount list and watch endpointslices of discovery.k8s.io"
        )),
        _ => ReadError::NoAnswer(text),
    }
}

/// An error says only its own part.
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
