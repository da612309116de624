//! A mesh with Kubernetes as discovery source. A fake API server serves EndpointSlices that follow
//! the processes as those of a cluster follow pods.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use signaling_api_standin::{ApiServer, Pod, Slice};
use signaling_devmesh::{Binaries, MeshOptions};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use crate::TestMesh;

/// Interval of checks on the processes.
const LOOK: Duration = Duration::from_millis(20);
/// Delay of the slices, for a probe and the controller.
const LAG: Duration = Duration::from_millis(300);
/// Time from a pod's termination until its readiness probe fails.
const PROBED: Duration = Duration::from_millis(800);
const SOURCE: &str = "kubernetes:calls/signaling-nodes:internal";

/// A mesh, and the API server that its servers use.
pub struct KubernetesMesh {
    pub mesh: TestMesh,
    pub api: Arc<ApiServer>,
    _controller: AbortOnDropHandle<()>,
    _programs: TempDir,
}

impl KubernetesMesh {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut MeshOptions)) -> Self {
        let api = Arc::new(ApiServer::start().await);
        let programs = tempfile::tempdir().unwrap();
        let kubeconfig = programs.path().join("kubeconfig");
        api.write_kubeconfig(&kubeconfig);
        let mut controller = None;
        let mesh = TestMesh::with(|options: &mut MeshOptions| {
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

/// State of a pod in mesh-dev's file, and its start.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Doing {
    address: String,
    draining: bool,
    since: Instant,
}

/// Updates the slices from mesh-dev's file. The nodes share their address and differ by port, so
/// each has a slice.
async fn control(file: PathBuf, api: Arc<ApiServer>) {
    let mut doing_by_id: BTreeMap<String, Doing> = BTreeMap::new();
    let mut shown: BTreeMap<String, Slice> = BTreeMap::new();
    loop {
        sleep(LOOK).await;
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let Ok(nodes) = serde_json::from_str::<Vec<Value>>(&text) else { continue };
        let now = Instant::now();
        let mut wanted = BTreeMap::new();
        for node in nodes {
            let id = node["id"].as_str().unwrap().to_owned();
            let (address, draining) = (node["address"].as_str().unwrap().to_owned(), node["draining"] == true);
            let doing = match doing_by_id.remove(&id) {
                Some(doing) if doing.address == address && doing.draining == draining => doing,
                _ => Doing { address, draining, since: now },
            };
            wanted.insert(id.clone(), (slice(&id, &doing, now), doing));
        }
        for id in shown.keys().filter(|id| !wanted.contains_key(*id)) {
            api.delete("calls", &format!("signaling-nodes-{id}"));
        }
        for (id, (slice, _)) in &wanted {
            if shown.get(id) != Some(slice) {
                api.put(slice);
            }
        }
        shown = wanted.iter().map(|(id, (slice, _))| (id.clone(), slice.clone())).collect();
        doing_by_id = wanted.into_iter().map(|(id, (_, doing))| (id, doing)).collect();
    }
}

/// Returns the slice of a node: unready, ready, terminating, then also unready.
fn slice(id: &str, doing: &Doing, now: Instant) -> Slice {
    let (ip, port) = doing.address.rsplit_once(':').unwrap();
    let pod = Pod::serving(id, ip);
    let for_so_long = now - doing.since;
    let pod = match doing.draining {
        false if for_so_long < LAG => pod.unready(),
        true if for_so_long >= PROBED => pod.terminating().unready(),
        true if for_so_long >= LAG => pod.terminating(),
        _ => pod,
    };
    Slice::new(&format!("signaling-nodes-{id}"), port.parse().unwrap(), [pod])
}
