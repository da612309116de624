//! A service with slices written through the API: of the simulated API, or of the real cluster in
//! `TEST_KUBECONFIG`, in the namespace `TEST_NAMESPACE`.

use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use signaling_api_standin::{ApiServer, Slice};

use super::{Cluster, settings, slice};

/// Manager of the slices, so that the cluster's own controller ignores them.
const MANAGER: &str = "signaling-mesh-tests";

pub(crate) struct Service {
    slices: Api<EndpointSlice>,
    namespace: String,
    name: String,
    _standin: Option<ApiServer>,
}

impl Cluster<Service> {
    /// Follows these pods in one slice, and waits until the view has them.
    pub(crate) async fn in_service(pods: &[&str]) -> Self {
        let (kubeconfig, standin, dir) = match std::env::var_os("TEST_KUBECONFIG") {
            Some(path) => (PathBuf::from(path), None, None),
            None => {
                let (api, dir) = (ApiServer::start().await, tempfile::tempdir().unwrap());
                let path = dir.path().join("kubeconfig");
                api.write_kubeconfig(&path);
                (path, Some(api), Some(dir))
            }
        };
        let namespace = std::env::var("TEST_NAMESPACE").unwrap_or_else(|_| "calls".into());
        let file = Kubeconfig::read_from(&kubeconfig).unwrap();
        let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
        if config.cluster_url.scheme_str() == Some("http") {
            config.root_cert.get_or_insert_default();
        }
        let slices = Api::namespaced(Client::try_from(config).unwrap(), &namespace);
        let service = Service { slices, name: unique_name(), namespace, _standin: standin };
        let source = format!("kubernetes:{}/{}:internal", service.namespace, service.name);
        service.put(slice("one", pods)).await;
        let cluster = Self::follow(service, &source, settings(Some(kubeconfig)), dir).await;
        cluster.becomes(&pods.join(" ")).await;
        cluster
    }
}

impl Service {
    /// Adds or replaces a slice of the service.
    pub(crate) async fn put(&self, slice: Slice) {
        self.put_as_it_is(Slice { namespace: self.namespace.clone(), service: self.name.clone(), ..slice }).await;
    }

    /// Adds or replaces a slice of any service.
    pub(crate) async fn put_as_it_is(&self, slice: Slice) {
        let slice = Slice { name: format!("{}-{}", self.name, slice.name), ..slice };
        let mut object = slice.to_json();
        object["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = MANAGER.into();
        let params = PatchParams::apply(MANAGER).force();
        self.slices.patch(&slice.name, &params, &Patch::Apply(object)).await.unwrap();
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// Returns a unique name: tests run concurrently, and remains of earlier runs must not matter.
fn unique_name() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let since = std::time::UNIX_EPOCH.elapsed().unwrap().as_micros();
    format!("mesh-{}-{since}-{}", process::id(), LAST.fetch_add(1, Ordering::Relaxed))
}
