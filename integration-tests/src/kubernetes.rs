//! A mesh with Kubernetes as discovery source, for drills. A fake API server serves EndpointSlices
//! that follow the processes as those of a cluster follow pods.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use signaling_api_standin::{ApiServer, Pod, Slice};
use signaling_devmesh::{Binaries, DiscoveredNode, MeshOptions};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use crate::TestMesh;

const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Delay of the slices, for a probe and the controller.
const LAG: Duration = Duration::from_millis(300);
/// Time from a pod's termination until its readiness probe fails.
const PROBED: Duration = Duration::from_millis(800);
const SOURCE: &str = "kubernetes:calls/signaling-nodes:internal";

/// A mesh, and the API server that its servers use.
pub struct KubernetesMesh {
    pub mesh: TestMesh,
    /// The fake API server, which tests can make fail.
    pub api: Arc<ApiServer>,
    _controller: AbortOnDropHandle<()>,
    _programs: TempDir,
}

impl KubernetesMesh {
    /// Starts a mesh with options changed by `change`, as [`TestMesh::with_options`] does.
    pub async fn with_options(change: impl FnOnce(&mut MeshOptions)) -> Self {
        let api = Arc::new(ApiServer::start().await);
        let programs = tempfile::tempdir().unwrap();
        let kubeconfig = programs.path().join("kubeconfig");
        api.write_kubeconfig(&kubeconfig);
        let mut controller = None;
        let mesh = TestMesh::with_options(|options: &mut MeshOptions| {
            change(options);
            options.binaries = redirected(&options.binaries, programs.path(), &kubeconfig);
            let file = options.dir.join("nodes.json");
            controller = Some(AbortOnDropHandle::new(tokio::spawn(control(file, Arc::clone(&api)))));
        })
        .await;
        Self { mesh, api, _controller: controller.unwrap(), _programs: programs }
    }
}

/// Wraps the programs in scripts that replace mesh-dev's discovery file by Kubernetes.
fn redirected(binaries: &Binaries, dir: &Path, kubeconfig: &Path) -> Binaries {
    let redirect = |program: &Path| {
        let script = dir.join(program.file_name().unwrap());
        let text = format!(
            "#!/bin/sh\n\
             export KUBECONFIG='{}'\n\
             for argument; do\n\
             shift\n\
             case \"$argument\" in file:*) argument='{SOURCE}';; esac\n\
             set -- \"$@\" \"$argument\"\n\
             done\n\
             exec '{}' \"$@\"\n",
            kubeconfig.display(),
            program.display()
        );
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        script
    };
    Binaries { node: redirect(&binaries.node), balancer: redirect(&binaries.balancer) }
}

/// Updates the slices from mesh-dev's file. The nodes share their address and differ by port, so
/// each has a slice.
async fn control(file: PathBuf, api: Arc<ApiServer>) {
    // Entries of the file, the times of their last changes, and their slices.
    let mut shown: BTreeMap<String, (DiscoveredNode, Instant, Slice)> = BTreeMap::new();
    loop {
        sleep(CHECK_INTERVAL).await;
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let Ok(nodes) = serde_json::from_str::<Vec<DiscoveredNode>>(&text) else { continue };
        let now = Instant::now();
        let mut wanted = BTreeMap::new();
        for node in nodes {
            let unchanged = shown.get(&node.id).filter(|(former, ..)| *former == node);
            let since = unchanged.map_or(now, |(_, since, _)| *since);
            let slice = slice(&node, now - since);
            wanted.insert(node.id.clone(), (node, since, slice));
        }
        for id in shown.keys().filter(|id| !wanted.contains_key(*id)) {
            api.delete("calls", &format!("signaling-nodes-{id}"));
        }
        for (id, (.., slice)) in &wanted {
            if shown.get(id).is_none_or(|(.., former)| former != slice) {
                api.put(slice);
            }
        }
        shown = wanted;
    }
}

/// Returns the slice of a node: unready, ready, terminating, then also unready.
fn slice(DiscoveredNode { id, address, draining, .. }: &DiscoveredNode, age: Duration) -> Slice {
    let (ip, port) = address.rsplit_once(':').unwrap();
    let serving = if *draining { age < PROBED } else { age >= LAG };
    let pod = Pod { serving, terminating: *draining && age >= LAG, ..Pod::serving(id, ip) };
    Slice::new(&format!("signaling-nodes-{id}"), port.parse().unwrap(), [pod])
}
