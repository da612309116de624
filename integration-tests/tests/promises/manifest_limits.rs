//! What the manifests allow fits what they give: memory to what a crowd can take, and autoscaling to what a pod takes.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;

use clap::Parser;
use serde_json::Value;
use signaling_edge::shell::MemoryBound;
use signaling_integration_tests::mint::Signer;
use signaling_integration_tests::rendered::{Pod, Rendered, list};
use signaling_integration_tests::tls::Certificate;
use signaling_server::load_readiness::MAX_UNREADY;
use tempfile::TempDir;

/// What the kernel has of a socket: its structures, and what is in its buffers at a time.
const KERNEL: usize = 5 * 1024;
/// The least that is left beside what a server's clients can take: one part in so many of that.
const SPARE: usize = 4;
/// After how many seconds Kubernetes gives a rollout up that does not say otherwise.
const PROGRESS_DEADLINE_S: u64 = 600;
/// Of so many percent of the sockets' limit an alert tells.
const NEARLY_FULL: usize = 80;

#[test]
fn a_crowd_that_takes_what_it_can_stays_within_the_memory_limit() {
    let mounted = Mounted::new();
    for rendered in Rendered::meshes() {
        let (balancer, node) = (rendered.pod("signaling-balancers"), rendered.pod("signaling-nodes"));
        let config = mounted.read::<signaling_balancer::config::Args>(balancer).check().unwrap();
        fits(&rendered, balancer, 0, Some(MemoryBound::of(&config.edge)));

        let config = mounted.read::<signaling_node::config::Args>(node).check().unwrap();
        fits(&rendered, node, config.absent_bytes(), config.public.map(|_| MemoryBound::of(&config.edge)));
    }
}

#[test]
fn an_autoscaler_adds_a_balancer_before_the_others_are_full() {
    let (mut by_sockets, mounted, meshes) = (0, Mounted::new(), Rendered::meshes());
    for rendered in &meshes {
        let config = mounted.read::<signaling_balancer::config::Args>(rendered.pod("signaling-balancers")).check();
        let limit = config.unwrap().edge.admission.sockets;
        let autoscaler = rendered.object("HorizontalPodAutoscaler", "signaling-balancers");
        for metric in list(&autoscaler["spec"]["metrics"]) {
            if metric["pods"]["metric"]["name"] != "signaling_client_sockets" {
                continue;
            }
            let target: usize = metric["pods"]["target"]["averageValue"].as_str().unwrap().parse().unwrap();
            assert!(target * 100 < limit * NEARLY_FULL, "{}: {target} a pod, of {limit}", rendered.folder);
            by_sockets += 1;
        }
    }
    assert!(by_sockets > 0 || meshes.is_empty());
}

#[test]
fn a_rollout_waits_longer_than_a_new_balancer_may_say_that_it_is_not_ready() {
    let (mut keep_even, mounted, meshes) = (0, Mounted::new(), Rendered::meshes());
    for rendered in &meshes {
        let balancer = rendered.pod("signaling-balancers");
        let config = mounted.read::<signaling_balancer::config::Args>(balancer).check().unwrap();
        if config.load_readiness.is_none() {
            continue;
        }
        let spec = &balancer.owner["spec"];
        let deadline_s = spec["progressDeadlineSeconds"].as_u64().unwrap_or(PROGRESS_DEADLINE_S);
        let needed_s = MAX_UNREADY.as_secs() + spec["minReadySeconds"].as_u64().unwrap();
        assert!(deadline_s > needed_s, "{}: {deadline_s} s, and it may take {needed_s} s", rendered.folder);
        keep_even += 1;
    }
    assert!(keep_even > 0 || meshes.is_empty());
}

fn fits(rendered: &Rendered, pod: Pod<'_>, of_itself: usize, clients: Option<MemoryBound>) {
    let limit = bytes(&pod.container()["resources"]["limits"]["memory"]);
    let (bound, sockets) = clients.map_or((0, 0), |clients| (clients.total(), clients.sockets));
    let bound = bound + of_itself;
    let needed = bound + (bound / SPARE).max(sockets * KERNEL);
    let mib = |bytes: usize| bytes.div_ceil(1024 * 1024);
    assert!(
        needed <= limit,
        "{} of {}: settings come to {} MiB, {} with the kernel's part, and the limit is {}",
        pod.name(),
        rendered.folder,
        mib(bound),
        mib(needed),
        mib(limit)
    );
}

/// A quantity of Kubernetes, in bytes.
fn bytes(quantity: &Value) -> usize {
    let quantity = quantity.as_str().unwrap();
    let (number, unit) = quantity.split_at(quantity.len() - 2);
    let unit = match unit {
        "Mi" => 1024 * 1024,
        "Gi" => 1024 * 1024 * 1024,
        _ => panic!("{quantity} is not read here"),
    };
    number.parse::<usize>().unwrap() * unit
}

/// What is mounted into the pods.
struct Mounted(TempDir);

impl Mounted {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8]| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        write("signaling/mesh-secret", b"a-mesh-secret-of-pods");
        write("signaling/hash-seed", b"0x1234");
        write("signaling/admin-token", b"an-admin-token-of-pods");
        write("signaling/room-store-password", b"a-password-of-rooms");
        write("tokens/keys", &Signer::eddsa().key_file());
        let made = Certificate::new(dir.path(), "made");
        let read = |path: &Path| fs::read(path).unwrap();
        write("tls/tls.crt", &read(&made.path));
        write("tls/tls.key", &read(&made.key));
        Self(dir)
    }

    /// What a program makes of a pod's flags and variables.
    fn read<A: Parser>(&self, pod: Pod<'_>) -> A {
        let command = A::command();
        let of_variable = |(name, value): (&str, Option<&str>)| {
            let argument =
                command.get_arguments().find(|argument| argument.get_env().is_some_and(|env| env == name))?;
            let (flag, value) = (argument.get_long()?, value?);
            Some(if argument.get_action().takes_values() { format!("--{flag}={value}") } else { format!("--{flag}") })
        };
        let words = pod.arguments().into_iter().map(str::to_owned).chain(pod.variables().filter_map(of_variable));
        let here = self.0.path().display().to_string();
        let words = words.map(|word| pod.expanded(&word).replace("/run/secrets", &here));
        A::try_parse_from([pod.name().to_owned()].into_iter().chain(words)).unwrap_or_else(|error| panic!("{error}"))
    }
}
