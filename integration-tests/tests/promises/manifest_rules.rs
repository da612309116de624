//! What the manifests say of our programs is true of them, and the parts fit each other.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;

use serde_json::{Value, json};
use signaling_integration_tests::mesh::binaries;
use signaling_integration_tests::network_policies::{End, passes};
use signaling_integration_tests::rendered::{Pod, Rendered, list, repository, selects};

/// What is left of the grace period when a drain has taken its longest.
const MARGIN_S: u64 = 5;
/// Two machines, of which the first is where components/external-redis lets nodes go.
const EXTERNAL_STORE: End<'static> = End::Address(Ipv4Addr::new(192, 0, 2, 7));
const STRANGER: End<'static> = End::Address(Ipv4Addr::new(192, 0, 3, 7));
const OURS: [&str; 3] = ["signaling-node", "signaling-balancer", "mesh-load"];

#[test]
fn every_flag_and_variable_is_one_that_the_program_names_in_its_help() {
    for rendered in Rendered::all() {
        for (pod, program) in our_pods(&rendered) {
            let help = help(pod, program);
            for word in pod.arguments().into_iter().filter(|word| word.starts_with("--")) {
                let flag = word.split('=').next().unwrap();
                assert!(help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}\n")), "{program}: {flag}");
            }
            for (name, _) in pod.variables().filter(|(name, _)| name.starts_with("SIGNALING_")) {
                let is_named = ["=", "]"].iter().any(|end| help.contains(&format!("[env: {name}{end}")));
                assert!(is_named, "{program}: {name}");
            }
        }
    }
}

#[test]
fn every_value_is_one_that_the_program_takes() {
    for rendered in Rendered::meshes() {
        for (pod, program) in our_pods(&rendered) {
            let run = |arguments: &[String]| {
                let mut server = Command::new(binaries().join(program));
                server.args(arguments).env_clear();
                for (name, value) in pod.variables() {
                    server.env(name, pod.expanded(value.unwrap_or("a-password")));
                }
                let end = server.output().unwrap();
                assert!(!end.status.success());
                String::from_utf8(end.stderr).unwrap()
            };
            let arguments: Vec<String> = pod.arguments().into_iter().map(|word| pod.expanded(word)).collect();
            // Flags are read first, and then the secrets, which are not here.
            let complaint = run(&arguments);
            assert!(
                complaint.contains("--mesh-secret-file: cannot read /run/secrets/signaling/mesh-secret"),
                "{complaint}"
            );
        }
    }
}

#[test]
fn clients_need_tokens_but_for_trying_out() {
    for rendered in Rendered::meshes() {
        let pods = rendered.pods();
        let balancer = pods.iter().find(|pod| pod.name() == "signaling-balancers").unwrap();
        let has = |name: &str| balancer.variables().any(|(variable, _)| variable == name);
        let is_for_trying_out = rendered.folder == "overlays/kind";
        assert_eq!(has("SIGNALING_ALLOW_ANONYMOUS"), is_for_trying_out, "{}", rendered.folder);
        assert_eq!(has("SIGNALING_TOKEN_KEY_FILE"), !is_for_trying_out, "{}", rendered.folder);
    }
}

#[test]
fn servers_look_for_the_nodes_where_the_nodes_are() {
    for rendered in Rendered::meshes() {
        for (pod, _) in our_pods(&rendered) {
            let source = pod.flag("--discovery").unwrap();
            let (namespace, rest) = source.strip_prefix("kubernetes:").unwrap().split_once('/').unwrap();
            let (service, port) = rest.split_once(':').unwrap();
            assert_eq!(namespace, "$(POD_NAMESPACE)");
            let service = &rendered.object("Service", service)["spec"];
            let nodes = rendered.object("Deployment", "signaling-nodes");
            assert_eq!(service["selector"], nodes["spec"]["selector"]["matchLabels"]);
            assert!(list(&service["ports"]).iter().any(|entry| entry["name"] == port && entry["targetPort"] == port));
            assert_eq!(service["clusterIP"], "None");
            assert!(service.get("publishNotReadyAddresses").is_none(), "else nobody ever leaves the view");
        }
    }
}

#[test]
fn balancers_that_keep_even_may_ask_one_another_whether_they_are_ready_or_not() {
    let mut keep_even = 0;
    for rendered in Rendered::meshes() {
        let balancer = rendered.pods().into_iter().find(|pod| pod.name() == "signaling-balancers").unwrap();
        let end = End::Pod(balancer);
        let Some(peers) = balancer.flag("--balancer-discovery") else { continue };
        assert!(passes(&rendered, end, end, 7900, "TCP"), "{}", rendered.folder);
        assert_eq!(peers, "kubernetes:$(POD_NAMESPACE)/signaling-balancers:internal");
        let service = &rendered.object("Service", "signaling-balancers")["spec"];
        assert!(selects(&json!({ "matchLabels": service["selector"] }), balancer.labels()));
        assert!(list(&service["ports"]).iter().any(|port| port["name"] == "internal"));
        assert_eq!(service["publishNotReadyAddresses"], true, "for those who look them up by name");
        keep_even += 1;
    }
    assert!(keep_even > 0 || Rendered::meshes().is_empty());
}

#[test]
fn every_port_that_is_opened_is_in_a_service_and_a_policy_and_health_is_asked_where_it_is_answered() {
    for rendered in Rendered::meshes() {
        for pod in rendered.pods() {
            let opened: BTreeSet<u64> = match pod.program() {
                Some(_) => {
                    ["--listen", "--internal", "--public"].iter().filter_map(|flag| port_of(pod.flag(flag)?)).collect()
                }
                None => pod
                    .arguments()
                    .windows(2)
                    .filter(|pair| pair[0] == "--port")
                    .filter_map(|pair| port_of(pair[1]))
                    .collect(),
            };
            let declared: BTreeSet<u64> = pod.ports().iter().map(|(_, port)| *port).collect();
            assert_eq!(opened, declared, "{}", pod.name());
            for (name, _) in pod.ports() {
                assert!(is_served(&rendered, pod, name), "{}: no Service leads to {name}", pod.name());
                let is_let_in = |policy: &Value| {
                    selects(&policy["spec"]["podSelector"], pod.labels())
                        && list(&policy["spec"]["ingress"])
                            .iter()
                            .any(|rule| list(&rule["ports"]).contains(&json!({ "port": name })))
                };
                assert!(
                    rendered.kind("NetworkPolicy").any(is_let_in),
                    "{}: no policy lets anybody to {name}",
                    pod.name()
                );
            }
            for probe in ["readinessProbe", "livenessProbe"] {
                let probe = &pod.container()[probe];
                let port =
                    if pod.program().is_some() { &probe["httpGet"]["port"] } else { &probe["tcpSocket"]["port"] };
                let expected = if pod.program().is_some() { "internal" } else { "redis" };
                assert_eq!(port, expected, "{}", pod.name());
            }
        }
        for annotated in rendered.pods().iter().filter_map(|pod| pod.template["metadata"].get("annotations")) {
            assert_eq!(annotated["prometheus.io/port"], "7900");
        }
    }
}

#[test]
fn policies_let_pass_what_must_and_nothing_else() {
    for rendered in Rendered::meshes() {
        let pod = |name: &str| End::Pod(rendered.pod(name));
        let (node, balancer) = (pod("signaling-nodes"), pod("signaling-balancers"));
        let (dns, monitoring, other) =
            (End::Namespace("kube-system"), End::Namespace("monitoring"), End::Namespace("default"));
        let tcp = |from, to, port| passes(&rendered, from, to, port, "TCP");
        for server in [node, balancer] {
            assert!(tcp(server, node, 7900), "trunks and forwards");
            assert!(tcp(server, balancer, 7900), "what a dashboard asks");
            assert!(tcp(server, End::World, 443) && tcp(server, End::World, 6443), "the API server");
            assert!(passes(&rendered, server, dns, 53, "UDP") && tcp(server, dns, 53), "names");
            assert!(tcp(monitoring, server, 7900), "scraping");
            assert!(!tcp(End::World, server, 7900) && !tcp(other, server, 7900), "the internal listener");
            assert!(!tcp(server, End::World, 80) && !tcp(server, other, 7900), "nowhere else");
        }
        assert!(tcp(End::World, balancer, 8080) && tcp(other, balancer, 8080), "clients");
        assert_eq!(tcp(node, EXTERNAL_STORE, 6379), !rendered.has_store(), "{}", rendered.folder);
        assert!(!tcp(node, STRANGER, 6379) && !tcp(balancer, EXTERNAL_STORE, 6379));
        if rendered.has_store() {
            let redis = pod("signaling-redis");
            assert!(tcp(node, redis, 6379));
            assert!(!tcp(balancer, redis, 6379) && !tcp(other, redis, 6379));
            assert!(!tcp(redis, node, 7900) && !tcp(redis, End::World, 443));
        }
    }
}

#[test]
fn the_store_of_rooms_is_ours_or_nothing_of_ours_is_left() {
    for rendered in Rendered::meshes() {
        assert_eq!(rendered.has_store(), rendered.folder.starts_with("overlays/"), "{}", rendered.folder);
        let is_left = rendered.objects.iter().any(|object| object["metadata"]["name"] == "signaling-redis");
        assert_eq!(is_left, rendered.has_store(), "{}", rendered.folder);
        let store = rendered.pod("signaling-nodes").variable("SIGNALING_ROOM_STORE").unwrap();
        assert_eq!(store.starts_with("redis://signaling-redis:"), rendered.has_store(), "{store}");
    }
}

#[test]
fn every_component_is_in_one_of_the_meshes() {
    let mut used = BTreeSet::new();
    for folder in ["deploy/overlays/production", "integration-tests/manifests/with-components"] {
        let text = fs::read_to_string(repository().join(folder).join("kustomization.yaml")).unwrap();
        let kustomization: Value = serde_saphyr::from_str(&text).unwrap();
        let names = list(&kustomization["components"]).iter().filter_map(|path| path.as_str()?.rsplit('/').next());
        used.extend(names.map(str::to_owned));
    }
    let folders = fs::read_dir(repository().join("deploy/components")).unwrap();
    let there: BTreeSet<String> = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(used, there);
}

#[test]
fn the_grace_period_is_longer_than_the_longest_drain() {
    for rendered in Rendered::meshes() {
        for (pod, program) in our_pods(&rendered) {
            let drain_s = pod.variable("SIGNALING_DRAIN_MS").unwrap().parse::<u64>().unwrap().div_ceil(1_000);
            let pause_s = pod.container()["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64().unwrap_or(0);
            let grace_s = pod.spec()["terminationGracePeriodSeconds"].as_u64().unwrap();
            assert!(grace_s >= pause_s + drain_s + MARGIN_S, "{program}: {grace_s} s for {pause_s} + {drain_s} s");
        }
    }
}

#[test]
fn selectors_and_autoscalers_and_budgets_mean_pods_that_exist() {
    for rendered in Rendered::meshes() {
        for deployment in rendered.kind("Deployment") {
            assert!(selects(&deployment["spec"]["selector"], &deployment["spec"]["template"]["metadata"]["labels"]));
        }
        for service in rendered.kind("Service") {
            let selector = json!({ "matchLabels": service["spec"]["selector"] });
            let pods = rendered.pods();
            let meant: Vec<&Pod<'_>> = pods.iter().filter(|pod| selects(&selector, pod.labels())).collect();
            assert_eq!(meant.len(), 1, "{}", service["metadata"]["name"]);
            for port in list(&service["spec"]["ports"]) {
                assert!(
                    meant[0].ports().iter().any(|(name, _)| port["targetPort"] == *name),
                    "{}",
                    service["metadata"]["name"]
                );
            }
        }
        for budget in rendered.kind("PodDisruptionBudget") {
            assert!(rendered.pods().iter().any(|pod| selects(&budget["spec"]["selector"], pod.labels())));
        }
        for name in ["signaling-nodes", "signaling-balancers"] {
            let autoscaler = &rendered.object("HorizontalPodAutoscaler", name)["spec"];
            let deployment = &rendered.object("Deployment", name)["spec"];
            assert_eq!(autoscaler["scaleTargetRef"]["name"], name);
            assert!(deployment["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"].is_string());
            let down = &autoscaler["behavior"]["scaleDown"];
            assert!(
                down["stabilizationWindowSeconds"].as_u64().unwrap() >= 300,
                "{name}: those who move should do so once"
            );
        }
    }
}

#[test]
fn deployments_state_the_minimum_of_their_autoscalers() {
    for rendered in Rendered::meshes() {
        for name in ["signaling-nodes", "signaling-balancers"] {
            let minimum = &rendered.object("HorizontalPodAutoscaler", name)["spec"]["minReplicas"];
            let stated = &rendered.object("Deployment", name)["spec"]["replicas"];
            assert_eq!(stated, minimum, "{}: {name}", rendered.folder);
        }
    }
}

#[test]
fn servers_may_list_and_watch_endpoint_slices_of_their_namespace_and_nothing_else() {
    for rendered in Rendered::meshes() {
        let rules =
            json!([{ "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"] }]);
        assert_eq!(rendered.object("Role", "signaling")["rules"], rules);
        assert_eq!((rendered.kind("Role").count(), rendered.kind("ClusterRole").count()), (1, 0));
        let subjects = list(&rendered.object("RoleBinding", "signaling")["subjects"]);
        let bound: BTreeSet<&str> = subjects.iter().map(|subject| subject["name"].as_str().unwrap()).collect();
        for pod in rendered.pods() {
            let asks = pod.flag("--discovery").is_some();
            assert_eq!(pod.spec()["automountServiceAccountToken"], asks, "{}", pod.name());
            assert!(!asks || bound.contains(pod.spec()["serviceAccountName"].as_str().unwrap()), "{}", pod.name());
        }
    }
}

#[test]
fn every_pod_is_as_confined_as_the_restricted_standard_asks() {
    for rendered in Rendered::all() {
        for namespace in rendered.kind("Namespace") {
            assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
        }
        for pod in rendered.pods() {
            let (spec, container) = (pod.spec(), pod.container());
            assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
            assert!(spec["securityContext"]["runAsUser"].as_u64().unwrap() > 0);
            assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
            let expected = json!({
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] },
            });
            assert_eq!(container["securityContext"], expected, "{}", pod.name());
            assert!(["hostNetwork", "hostPID", "hostIPC"].iter().all(|field| spec.get(*field).is_none()));
            assert!(list(&spec["volumes"]).iter().all(|volume| volume.get("hostPath").is_none()));
            assert!(container["resources"]["limits"]["memory"].is_string(), "{}", pod.name());
            assert_eq!(spec["enableServiceLinks"], false, "else a Service's variables stand among our own");
        }
    }
}

#[test]
fn images_have_a_version() {
    for rendered in Rendered::all() {
        for pod in rendered.pods() {
            let image = pod.container()["image"].as_str().unwrap();
            let (_, tag) = image.rsplit_once(':').unwrap_or_else(|| panic!("{image} has no tag"));
            assert_ne!(tag, "latest");
            assert_eq!(pod.container()["imagePullPolicy"], "IfNotPresent");
        }
    }
}

fn our_pods(rendered: &Rendered) -> Vec<(Pod<'_>, &str)> {
    let pods: Vec<_> = rendered.pods().into_iter().filter_map(|pod| Some((pod, pod.program()?))).collect();
    assert!(!pods.is_empty() && pods.iter().all(|(_, program)| OURS.contains(program)), "{}", rendered.folder);
    pods
}

fn help(pod: Pod<'_>, program: &str) -> String {
    let mut asked = Command::new(binaries().join(program));
    // The harness has its flags behind the name of a scenario.
    asked.args(pod.arguments().first().filter(|word| !word.starts_with("--")));
    String::from_utf8(asked.arg("--help").output().unwrap().stdout).unwrap()
}

fn port_of(address: &str) -> Option<u64> {
    address.rsplit(':').next()?.parse().ok()
}

fn is_served(rendered: &Rendered, pod: Pod<'_>, port: &str) -> bool {
    rendered.kind("Service").any(|service| {
        selects(&json!({ "matchLabels": service["spec"]["selector"] }), pod.labels())
            && list(&service["spec"]["ports"]).iter().any(|entry| entry["targetPort"] == port)
    })
}
