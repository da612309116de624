//! Servers accept the flags and variables of the manifests, and the limits of pods fit them.
//!
//! `.ci/manifests` checks all that needs no program of this repository.

use std::fs;
use std::path::Path;

use clap::Parser;
use serde_json::Value;
use signaling_balancer::config::Args as BalancerArgs;
use signaling_edge::MemoryBound;
use signaling_integration_tests::rendered::{Rendered, list};
use signaling_integration_tests::{Certificate, Signer};
use signaling_node::config::Args as NodeArgs;
use signaling_server::load_readiness::MAX_UNREADY;
use tempfile::TempDir;

/// Memory of the kernel for one socket: its structures, and the content of its buffers.
const KERNEL_SOCKET_BYTES: usize = 5 * 1024;
/// The memory limit exceeds the bound of a server's clients by at least a quarter of it.
const SPARE_DIVISOR: usize = 4;
/// Seconds after which Kubernetes fails a rollout, by default.
const PROGRESS_DEADLINE_S: u64 = 600;
/// An alert fires at this part of the socket limit.
const NEARLY_FULL_PERCENT: usize = 80;

#[test]
fn pods_run_within_their_limits_on_the_flags_given() {
    let mounted = Mounted::new();
    for mesh in Rendered::meshes() {
        let [balancer, node] =
            ["balancers", "nodes"].map(|kind| mesh.object("Deployment", &format!("signaling-{kind}")));
        let config = mounted.read::<NodeArgs>(node).check().unwrap();
        fits(&mesh, node, config.absent_bytes(), config.public.map(|_| MemoryBound::of(&config.edge)));
        let config = mounted.read::<BalancerArgs>(balancer).check().unwrap();
        fits(&mesh, balancer, 0, Some(MemoryBound::of(&config.edge)));

        let sockets = config.edge.admission.sockets;
        for metric in list(&mesh.object("HorizontalPodAutoscaler", "signaling-balancers")["spec"]["metrics"]) {
            let Some(target) = metric["pods"]["target"]["averageValue"].as_str() else { continue };
            let target: usize = target.parse().unwrap();
            assert!(target * 100 < sockets * NEARLY_FULL_PERCENT, "{}: scales at {target} of {sockets}", mesh.folder);
        }
        if config.load_readiness.is_some() {
            let spec = &balancer["spec"];
            let deadline_s = spec["progressDeadlineSeconds"].as_u64().unwrap_or(PROGRESS_DEADLINE_S);
            let needed_s = MAX_UNREADY.as_secs() + spec["minReadySeconds"].as_u64().unwrap();
            assert!(deadline_s > needed_s, "{}: a rollout takes {needed_s} of {deadline_s} s", mesh.folder);
        }
    }
}

/// Returns the only container of a deployment's pods.
fn container(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

fn name(deployment: &Value) -> &str {
    deployment["metadata"]["name"].as_str().unwrap()
}

fn fits(mesh: &Rendered, deployment: &Value, of_itself: usize, clients: Option<MemoryBound>) {
    let limit = bytes(&container(deployment)["resources"]["limits"]["memory"]);
    let (bound, sockets) = clients.map_or((0, 0), |clients| (clients.total(), clients.sockets));
    let bound = bound + of_itself;
    let needed = bound + (bound / SPARE_DIVISOR).max(sockets * KERNEL_SOCKET_BYTES);
    assert!(needed <= limit, "{} of {}: takes {needed} of {limit} bytes", name(deployment), mesh.folder);
}

/// Reads a quantity of Kubernetes.
fn bytes(quantity: &Value) -> usize {
    let quantity = quantity.as_str().unwrap();
    let (number, unit) = quantity.split_at(quantity.len() - 2);
    let shift = ["Ki", "Mi", "Gi"].iter().position(|known| *known == unit).unwrap() + 1;
    number.parse::<usize>().unwrap() << (10 * shift)
}

/// The files that are mounted into the pods.
struct Mounted(TempDir);

impl Mounted {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8]| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        write("signaling/mesh-secret", "5e".repeat(32).as_bytes());
        write("signaling/hash-seed", "5eed".repeat(16).as_bytes());
        write("signaling/admin-token", b"an-admin-token-of-pods");
        write("room-journal/password", b"a-password-of-rooms");
        write("tokens/keys", &Signer::eddsa().key_file);
        let made = Certificate::new(dir.path(), "made", 2);
        let read = |path: &Path| fs::read(path).unwrap();
        write("tls/tls.crt", &read(&made.path));
        write("tls/tls.key", &read(&made.key));
        Self(dir)
    }

    /// Parses a pod's flags and variables; panics at a flag, variable or value that the program
    /// refuses.
    fn read<A: Parser>(&self, deployment: &Value) -> A {
        let (pod, container) = (name(deployment), container(deployment));
        let command = A::command();
        let of_variable = |(name, value): (&str, Option<&str>)| {
            let mut arguments = command.get_arguments();
            let argument = arguments.find(|argument| argument.get_env().is_some_and(|env| env == name));
            let flag = argument.unwrap_or_else(|| panic!("{pod} reads no {name}")).get_long().unwrap();
            let takes_value = argument.is_some_and(|argument| argument.get_action().takes_values());
            if takes_value { format!("--{flag}={}", value.unwrap()) } else { format!("--{flag}") }
        };
        let variables = list(&container["env"]).iter();
        let variables = variables.map(|entry| (entry["name"].as_str().unwrap(), entry["value"].as_str()));
        let variables = variables.filter(|(name, _)| name.starts_with("SIGNALING_")).map(of_variable);
        let arguments = list(&container["args"]).iter().filter_map(Value::as_str);
        let words = arguments.map(str::to_owned).chain(variables);
        let here = self.0.path().display().to_string();
        let expanded = words.map(|word| {
            let word = word.replace("$(POD_NAME)", pod).replace("$(POD_NAMESPACE)", "signaling");
            word.replace("/run/secrets", &here)
        });
        A::try_parse_from([pod.to_owned()].into_iter().chain(expanded)).unwrap_or_else(|error| panic!("{error}"))
    }
}
