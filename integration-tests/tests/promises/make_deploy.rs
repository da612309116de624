//! `make deploy` and its like, with stand-ins for docker, kind and kubectl that write down how they are called.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

use signaling_integration_tests::optional::in_path;
use signaling_integration_tests::rendered::{Rendered, list, repository, tool};
use tempfile::TempDir;

use crate::manifest_types::{fit_the_schemas, lose_nothing_in_their_types};

/// What the scripts use of the system; nothing else is on their path.
const SYSTEM: [&str; 21] = [
    "awk", "basename", "bash", "cat", "cut", "dirname", "git", "grep", "ls", "make", "mkdir", "mktemp", "od", "printf",
    "realpath", "rm", "sh", "sha1sum", "sleep", "tr", "wc",
];
const ALL: [&str; 3] = ["docker", "kind", "kubectl"];
/// Writes its call down, and answers what the scripts ask.
const STAND_IN: &str = r#"#!/bin/bash
name=$(basename "$0")
echo "$name $*" >>"$STAND_IN_DIR/calls"
case "$name $*" in
"docker info"*) exit "$(cat "$STAND_IN_DIR/docker-info" 2>/dev/null || echo 0)" ;;
"kubectl version --client") echo "Client Version: v1.20.2" ;;
"kind get clusters") [[ ! -e $STAND_IN_DIR/kind-fails ]] || exit 1; cat "$STAND_IN_DIR/clusters" ;;
"kind delete cluster "*) rm -f "$STAND_IN_DIR/mark" ;;
*" create configmap "*) echo "configmap/made" >"$STAND_IN_DIR/mark" ;;
*" get configmap "*) [[ ! -e $STAND_IN_DIR/cluster-fails ]] || exit 1; cat "$STAND_IN_DIR/mark" 2>/dev/null || true ;;
"kubectl kustomize "*)
    [[ ! -e $STAND_IN_DIR/too-old ]] || exit 1
    [[ ! -e $STAND_IN_DIR/real-kubectl ]] || exec "$(cat "$STAND_IN_DIR/real-kubectl")" "$@"
    cat "$2/kustomization.yaml"
    cat "$STAND_IN_DIR/deployments" "$STAND_IN_DIR/autoscalers" "$STAND_IN_DIR/rendered" 2>/dev/null || true ;;
*" get secret signaling-tokens "*) cat "$STAND_IN_DIR/tokens" 2>/dev/null || true ;;
*" get secret signaling-tls "*) cat "$STAND_IN_DIR/certificate" 2>/dev/null || true ;;
*" get secret signaling-mesh --output go-template"*) cat "$STAND_IN_DIR/keys" ;;
*" get secret "*) cat "$STAND_IN_DIR/secret" 2>/dev/null || true ;;
*" get deployment "*"={.spec.replicas}") [[ "$*" =~ deployment\ ([a-z-]+) ]]
    cat "$STAND_IN_DIR/replicas-${BASH_REMATCH[1]}" 2>/dev/null || true ;;
*" get deployment "*"={.status.readyReplicas}")
    # One answer a line; the last one stays.
    mapfile -t ready <"$STAND_IN_DIR/ready"
    echo "${ready[0]}"
    ((${#ready[@]} == 1)) || printf '%s\n' "${ready[@]:1}" >"$STAND_IN_DIR/ready" ;;
*" get deployment signaling-balancers "*) cat "$STAND_IN_DIR/variables" 2>/dev/null ;;
*" create secret "*) folder=${!#}; cd "${folder#--from-file=}" && wc -c * >>"$STAND_IN_DIR/secret-files" ;;
*" get job "*) cat "$STAND_IN_DIR/job" 2>/dev/null || echo 1/ ;;
esac
"#;

/// As rendered, of two Deployments.
const AUTOSCALERS: &str = "---
kind: HorizontalPodAutoscaler
metadata:
  name: signaling-balancers
spec:
  minReplicas: 2
---
kind: HorizontalPodAutoscaler
metadata:
  name: signaling-nodes
spec:
  minReplicas: 3
";

struct Desk {
    dir: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Desk {
    fn with(tools: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for program in SYSTEM {
            symlink(in_path(&[program]).unwrap_or_else(|| panic!("no {program}")), bin.join(program)).unwrap();
        }
        for tool in tools {
            fs::write(bin.join(tool), STAND_IN).unwrap();
            fs::set_permissions(bin.join(tool), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let desk = Self { dir, variables: vec![("TAG", "v1".to_owned())] };
        desk.says("clusters", "another\n");
        desk.says("keys", "admin-token\nhash-seed\nmesh-secret\nroom-store-password\n");
        desk.says("deployments", "  name: signaling-balancers\n  name: signaling-nodes\n  name: signaling-redis\n");
        desk.says("autoscalers", AUTOSCALERS);
        desk.says("ready", "3\n");
        desk.says("variables", "POD_NAME SIGNALING_ALLOW_ANONYMOUS");
        desk
    }

    fn having(mut self, variable: &'static str, value: &str) -> Self {
        self.variables.push((variable, value.to_owned()));
        self
    }

    /// Whoever sleeps has slept at once.
    fn hurried(self) -> Self {
        let sleep = self.dir.path().join("bin/sleep");
        fs::remove_file(&sleep).unwrap();
        symlink(in_path(&["true"]).unwrap(), sleep).unwrap();
        self
    }

    fn says(&self, file: &str, text: &str) {
        fs::write(self.dir.path().join(file), text).unwrap();
    }

    fn no_longer_says(&self, file: &str) {
        fs::remove_file(self.dir.path().join(file)).unwrap();
    }

    fn make(&self, target: &str) -> Output {
        let _ = fs::remove_file(self.dir.path().join("calls"));
        let mut make = Command::new("make");
        make.arg(target).current_dir(repository()).env_clear();
        make.env("PATH", self.dir.path().join("bin")).env("HOME", self.dir.path()).env("STAND_IN_DIR", self.dir.path());
        make.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
        make.env("CARGO_TARGET_DIR", self.target());
        make.envs(self.variables.iter().map(|(name, value)| (name, value))).output().unwrap()
    }

    /// Runs it to its good end, and says what it printed.
    fn makes(&self, target: &str) -> String {
        let end = self.make(target);
        assert!(
            end.status.success(),
            "{}{}",
            String::from_utf8_lossy(&end.stdout),
            String::from_utf8_lossy(&end.stderr)
        );
        String::from_utf8(end.stdout).unwrap()
    }

    /// Runs it to its bad end, and says what it complained of.
    fn fails(&self, target: &str) -> String {
        let end = self.make(target);
        assert!(!end.status.success());
        String::from_utf8(end.stderr).unwrap()
    }

    fn target(&self) -> PathBuf {
        self.dir.path().join("target")
    }

    /// The calls so far, with the folder of this desk as `@`.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.dir.path().join("calls")).unwrap_or_default();
        let here = self.target().join("deploy").display().to_string();
        calls.lines().map(|call| call.replace(&here, "@")).collect()
    }
}

const KUBECTL_OF_KIND: &str = "kubectl --kubeconfig @/kubeconfig-signaling --context kind-signaling";
const DELETE_CLUSTER: &str = "kind delete cluster --name signaling --kubeconfig @/kubeconfig-signaling";
const MARK: &str = "configmap signaling-mesh-made-this-cluster";

/// Asks a kind cluster whether `make deploy` has created it.
fn asks_whose_it_is() -> String {
    format!("{KUBECTL_OF_KIND} --namespace kube-system get {MARK} --ignore-not-found --output name")
}

/// Asks what the balancers are told.
fn asks_for_variables(kubectl: &str) -> String {
    const NAMES: &str = "{.spec.template.spec.containers[0].env[*].name}";
    format!("{kubectl} --namespace signaling get deployment signaling-balancers --output jsonpath={NAMES}")
}

/// Deletes the mesh alone.
fn deletes_the_mesh(kubectl: &str, overlay: &str) -> String {
    format!("{kubectl} delete --ignore-not-found -f deploy/overlays/{overlay}/namespace.yaml")
}

/// Asks how many pods of a Deployment are ready.
fn asks_for_ready(kubectl: &str, deployment: &str) -> String {
    format!(
        "{kubectl} --namespace signaling get deployment {deployment} --ignore-not-found \
         --output jsonpath={{.status.readyReplicas}}"
    )
}

/// What any deployment ends with, by the given `kubectl`.
fn applied_by(kubectl: &str, overlay: &str) -> Vec<String> {
    let mut calls = vec![
        format!("kubectl kustomize @/{overlay}"),
        format!("{kubectl} apply -f deploy/overlays/{overlay}/namespace.yaml"),
        format!("{kubectl} --namespace signaling get secret signaling-mesh --ignore-not-found --output name"),
        format!("{kubectl} --namespace signaling create secret generic signaling-mesh --from-file="),
    ];
    if overlay.contains("production") {
        calls.push(format!(
            "{kubectl} --namespace signaling get secret signaling-tokens --ignore-not-found --output name"
        ));
    }
    for name in ["signaling-nodes", "signaling-balancers"] {
        calls.push(format!(
            "{kubectl} --namespace signaling get deployment {name} --ignore-not-found --output jsonpath={{.spec.replicas}}"
        ));
    }
    calls.push(format!("{kubectl} apply -f @/rendered.yaml"));
    for name in ["signaling-redis", "signaling-nodes", "signaling-balancers"] {
        calls.push(format!("{kubectl} --namespace signaling rollout status deployment/{name} --timeout 300s"));
        if name != "signaling-redis" {
            calls.push(asks_for_ready(kubectl, name));
        }
    }
    calls
}

/// The folder of random values has another name each time.
fn without_temporary_names(calls: Vec<String>) -> Vec<String> {
    let cut = |call: String| {
        call.find("--from-file=").map_or(call.clone(), |at| call[..at + "--from-file=".len()].to_owned())
    };
    calls.into_iter().map(cut).collect()
}

#[test]
fn without_a_cluster_one_is_created_with_a_kubeconfig_of_its_own_and_the_mesh_comes_up_in_it() {
    let desk = Desk::with(&ALL);
    let said = desk.makes("deploy");
    let mut expected: Vec<String> = [
        "docker info",
        "kind get clusters",
        "kind create cluster --name signaling --config deploy/kind.yaml --kubeconfig @/kubeconfig-signaling --wait 180s",
        &format!("{KUBECTL_OF_KIND} --namespace kube-system create {MARK}"),
        "docker info",
        "docker build -f deploy/Dockerfile -t signaling-mesh:v1 .",
        "kind load docker-image signaling-mesh:v1 --name signaling",
    ]
    .map(str::to_owned)
    .into();
    expected.extend(applied_by(KUBECTL_OF_KIND, "kind"));
    expected.push(asks_whose_it_is());
    assert_eq!(without_temporary_names(desk.calls()), expected);
    assert!(said.contains("http://127.0.0.1:8080/"), "{said}");
    let rendered = fs::read_to_string(desk.target().join("deploy/rendered.yaml")).unwrap();
    assert!(rendered.contains("newName: signaling-mesh\n    newTag: v1\n"), "{rendered}");
}

#[test]
fn a_cluster_and_a_secret_that_are_there_are_used_as_they_are() {
    let desk = Desk::with(&ALL).having("CLUSTER", "mine");
    desk.says("clusters", "mine-too\nmine\n");
    desk.says("secret", "secret/signaling-mesh\n");
    let said = desk.makes("deploy");
    let calls = desk.calls();
    assert!(
        calls.contains(&"kind export kubeconfig --name mine --kubeconfig @/kubeconfig-mine".to_owned()),
        "{calls:?}"
    );
    assert!(!calls.iter().any(|call| call.contains("create")), "{calls:?}");
    assert!(said.contains("port-forward service/signaling 8080:80"), "its ports may not be mapped: {said}");
}

#[test]
fn a_secret_that_lacks_a_key_is_noticed_before_pods_wait_for_it() {
    let desk = Desk::with(&ALL);
    desk.says("secret", "secret/signaling-mesh\n");
    desk.says("keys", "admin-token\nhash-seed\nmesh-secret\nroom-store-password-of-old\n");
    let complaint = desk.fails("deploy");
    assert!(complaint.contains("signaling-mesh has no room-store-password"), "{complaint}");
    assert!(!desk.calls().iter().any(|call| call.ends_with("rendered.yaml")), "{:?}", desk.calls());
}

#[test]
fn a_store_of_somebody_elses_is_not_waited_for() {
    let desk = Desk::with(&ALL);
    desk.says("deployments", "  name: signaling-balancers\n  name: signaling-nodes\n");
    desk.makes("deploy");
    let waited = desk.calls().into_iter().filter(|call| call.contains(" rollout status "));
    let waited: Vec<String> = waited.collect();
    assert_eq!(waited.len(), 2, "{waited:?}");
    assert!(!waited.iter().any(|call| call.contains("signaling-redis")), "{waited:?}");
}

#[test]
fn deploy_waits_for_the_minimum_before_the_address() {
    let desk = Desk::with(&ALL).hurried();
    desk.says("ready", "\n1\n2\n3\n");

    assert!(desk.makes("deploy").contains("http://127.0.0.1:8080/"));

    let calls = desk.calls();
    let asks = |name| calls.iter().filter(|call| **call == asks_for_ready(KUBECTL_OF_KIND, name)).count();
    assert_eq!((asks("signaling-nodes"), asks("signaling-balancers")), (4, 1));
}

#[test]
fn deploy_fails_without_an_address_below_the_minimum() {
    let desk = Desk::with(&ALL).hurried();
    desk.says("ready", "2\n");

    let end = desk.make("deploy");

    assert!(!end.status.success());
    assert_eq!(String::from_utf8(end.stdout).unwrap(), "");
    let complaint = String::from_utf8(end.stderr).unwrap();
    assert!(complaint.contains("2 of 3 pods of signaling-nodes are ready"), "{complaint}");
}

#[test]
fn deploy_keeps_the_number_of_pods_of_a_busy_mesh() {
    let Some(kubectl) = tool("kubectl") else { return };
    let desk = Desk::with(&["docker", "kubectl"]).having("CONTEXT", "prod").having("REGISTRY", "registry.test/team");
    desk.says("real-kubectl", &kubectl.display().to_string());
    desk.says("tokens", "secret/signaling-tokens\n");
    let applied = |nodes: &str, balancers: &str| {
        desk.says("replicas-signaling-nodes", nodes);
        desk.says("replicas-signaling-balancers", balancers);
        desk.makes("deploy");
        let applied = fs::read_to_string(desk.target().join("deploy/rendered.yaml")).unwrap();
        let rendered = Rendered::read("rendered", applied);
        ["signaling-nodes", "signaling-balancers"]
            .map(|name| rendered.object("Deployment", name)["spec"]["replicas"].as_u64().unwrap())
    };

    assert_eq!(applied("", ""), [3, 3], "the minimum of a mesh that is not there yet");
    assert_eq!(applied("10", "4"), [10, 4]);
    assert_eq!(applied("1", "4"), [3, 4]);
}

#[test]
fn a_cluster_of_the_users_own_gets_the_image_by_a_registry_and_no_kind() {
    let desk = Desk::with(&["docker", "kubectl"]).having("CONTEXT", "prod").having("REGISTRY", "registry.test/team");
    desk.says("rendered", "          secretName: signaling-tokens\n");
    desk.says("tokens", "secret/signaling-tokens\n");
    desk.makes("deploy");
    let mut expected = vec![
        "docker info".to_owned(),
        "docker buildx build --platform linux/amd64,linux/arm64 -f deploy/Dockerfile -t registry.test/team/signaling-mesh:v1 --push ."
            .to_owned(),
    ];
    expected.extend(applied_by("kubectl --context prod", "production"));
    expected.push("kubectl --context prod --namespace signaling get service signaling".to_owned());
    assert_eq!(without_temporary_names(desk.calls()), expected);

    let complaint = Desk::with(&ALL).having("CONTEXT", "prod").fails("deploy");
    assert!(complaint.contains("REGISTRY="), "{complaint}");
}

#[test]
fn a_mesh_that_asks_for_tokens_is_not_brought_up_before_there_are_keys() {
    let desk = Desk::with(&["docker", "kubectl"]).having("CONTEXT", "prod").having("REGISTRY", "registry.test/team");
    desk.says("rendered", "          secretName: signaling-tokens\n");
    let complaint = desk.fails("deploy");
    assert!(complaint.contains("create secret generic signaling-tokens --from-file=keys=FILE"), "{complaint}");
    assert!(!desk.calls().iter().any(|call| call.ends_with("rendered.yaml")), "{:?}", desk.calls());
}

#[test]
fn balancers_that_speak_tls_are_not_brought_up_before_there_is_a_certificate() {
    let desk = Desk::with(&["docker", "kubectl"]).having("CONTEXT", "prod").having("REGISTRY", "registry.test/team");
    let desk = desk.having("OVERLAY", "production-tls");
    desk.says("rendered", "          secretName: signaling-tokens\n          secretName: signaling-tls\n");
    desk.says("tokens", "secret/signaling-tokens\n");
    let complaint = desk.fails("deploy");
    assert!(complaint.contains("create secret tls signaling-tls --cert=FILE --key=FILE"), "{complaint}");
    assert!(!desk.calls().iter().any(|call| call.ends_with("rendered.yaml")), "{:?}", desk.calls());
    desk.says("certificate", "secret/signaling-tls\n");
    desk.makes("deploy");
    assert!(desk.calls().contains(&"kubectl --context prod apply -f @/rendered.yaml".to_owned()));
}

#[test]
fn a_kubectl_that_is_too_old_to_render_is_named() {
    let desk = Desk::with(&ALL);
    desk.says("too-old", "");
    let complaint = desk.fails("manifests");
    assert!(complaint.contains("must be 1.27 or newer") && complaint.contains("v1.20.2"), "{complaint}");
}

/// In a checkout of its own, with the scripts as they are here.
#[test]
fn whatever_is_not_committed_gives_the_image_another_tag() {
    let checkout = tempfile::tempdir().unwrap();
    let run = |script: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", script]).current_dir(checkout.path()).env_remove("TAG");
        bash.env("CARGO_TARGET_DIR", checkout.path().join("ignored"));
        let end = bash.output().unwrap();
        assert!(end.status.success(), "{script}: {}", String::from_utf8_lossy(&end.stderr));
        String::from_utf8(end.stdout).unwrap().trim().to_owned()
    };
    let tag = || run("source deploy/bin/common.sh && tag");
    fs::create_dir_all(checkout.path().join("deploy/bin")).unwrap();
    fs::copy(repository().join("deploy/bin/common.sh"), checkout.path().join("deploy/bin/common.sh")).unwrap();
    run("git init -q && echo ignored >.gitignore && git add . && \
         git -c user.name=a -c user.email=a@example.com -c commit.gpgsign=false commit -qm first");
    let committed = tag();
    assert_eq!(committed, run("git rev-parse --short=12 HEAD"));
    run("echo ignored >ignored/file");
    assert_eq!(tag(), committed);
    let mut tags = BTreeSet::from([committed.clone()]);
    let changes = ["touch new", "echo one >new", "echo two >new", "mv new renamed", "echo more >>.gitignore"];
    for change in changes {
        run(change);
        assert!(tags.insert(tag()), "after `{change}` the tag is one of before");
    }
    run("rm renamed && git checkout -q .gitignore");
    assert_eq!(tag(), committed);
}

#[test]
fn files_that_are_not_in_git_want_a_tag_to_be_set() {
    let unpacked = tempfile::tempdir().unwrap();
    fs::create_dir_all(unpacked.path().join("deploy/bin")).unwrap();
    fs::copy(repository().join("deploy/bin/common.sh"), unpacked.path().join("deploy/bin/common.sh")).unwrap();
    let image = |tag: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-c", "source deploy/bin/common.sh && name=$(image) && echo \"$name\""]);
        bash.current_dir(unpacked.path()).env("CARGO_TARGET_DIR", unpacked.path().join("target")).env("TAG", tag);
        bash.env("GIT_CEILING_DIRECTORIES", unpacked.path().parent().unwrap()).env_remove("REGISTRY");
        bash.output().unwrap()
    };
    let end = image("");
    assert!(!end.status.success());
    let complaint = String::from_utf8(end.stderr).unwrap();
    assert!(complaint.contains("set TAG="), "{complaint}");
    assert_eq!(String::from_utf8(end.stdout).unwrap(), "");
    assert_eq!(String::from_utf8(image("v1").stdout).unwrap(), "signaling-mesh:v1\n");
}

#[test]
fn the_current_context_is_neither_used_nor_changed() {
    for target in ["deploy", "load-kind", "undeploy"] {
        for clusters in ["signaling\n", ""] {
            let desk = Desk::with(&ALL);
            desk.says("clusters", clusters);
            desk.make(target);
            for call in desk.calls() {
                assert!(!call.contains("use-context") && !call.contains("set-context"), "{call}");
                if call.starts_with("kubectl ") && !call.starts_with("kubectl kustomize ") {
                    assert!(call.starts_with(KUBECTL_OF_KIND), "{call}");
                }
                if ["create", "export", "delete"].iter().any(|verb| call.starts_with(&format!("kind {verb} "))) {
                    assert!(call.contains("--kubeconfig @/kubeconfig-signaling"), "{call}");
                }
            }
        }
    }
}

#[test]
fn what_is_missing_is_named_with_the_way_to_get_it_and_nothing_is_begun() {
    for missing in ALL {
        let tools: Vec<&str> = ALL.into_iter().filter(|tool| *tool != missing).collect();
        let desk = Desk::with(&tools);
        let complaint = desk.fails("deploy");
        assert!(complaint.contains(&format!("{missing} is missing: https://")), "{complaint}");
        assert_eq!(desk.calls(), Vec::<String>::new());
    }
    let desk = Desk::with(&ALL);
    desk.says("docker-info", "1");
    let complaint = desk.fails("deploy");
    assert!(complaint.contains("its daemon does not answer"), "{complaint}");
    assert_eq!(desk.calls(), ["docker info"]);
}

#[test]
fn undeploy_deletes_a_cluster_that_deploy_created_and_of_another_only_the_mesh() {
    let desk = Desk::with(&ALL);
    desk.makes("deploy");
    desk.says("clusters", "signaling\n");
    desk.makes("undeploy");
    let asks = [
        "kind get clusters".to_owned(),
        "kind export kubeconfig --name signaling --kubeconfig @/kubeconfig-signaling".to_owned(),
        asks_whose_it_is(),
    ];
    assert_eq!(desk.calls(), [&asks[..], &[DELETE_CLUSTER.to_owned()]].concat());

    let desk = Desk::with(&ALL);
    desk.says("clusters", "signaling\n");
    desk.makes("undeploy");
    assert_eq!(desk.calls(), [&asks[..], &[deletes_the_mesh(KUBECTL_OF_KIND, "kind")]].concat());

    let desk = Desk::with(&["kubectl"]).having("CONTEXT", "prod");
    desk.makes("undeploy");
    assert_eq!(desk.calls(), [deletes_the_mesh("kubectl --context prod", "production")]);
}

#[test]
fn undeploy_spares_a_cluster_that_somebody_else_created_under_the_name_of_ours() {
    let desk = Desk::with(&ALL);
    desk.makes("deploy");
    desk.says("clusters", "signaling\n");
    // `kind delete cluster` and `kind create cluster` by hand: the mark was in the cluster.
    desk.no_longer_says("mark");
    desk.makes("undeploy");
    assert_eq!(desk.calls().last(), Some(&deletes_the_mesh(KUBECTL_OF_KIND, "kind")));
    assert!(!desk.calls().contains(&DELETE_CLUSTER.to_owned()), "{:?}", desk.calls());
}

#[test]
fn undeploy_knows_the_cluster_that_deploy_created_after_make_clean_too() {
    let desk = Desk::with(&ALL);
    desk.makes("deploy");
    desk.says("clusters", "signaling\n");
    fs::remove_dir_all(desk.target()).unwrap();
    desk.makes("undeploy");
    assert_eq!(desk.calls().last().map(String::as_str), Some(DELETE_CLUSTER));
}

#[test]
fn undeploy_forgets_nothing_while_kind_or_the_cluster_cannot_be_asked() {
    let desk = Desk::with(&ALL);
    desk.makes("deploy");
    desk.says("clusters", "signaling\n");
    let kubeconfig = desk.target().join("deploy/kubeconfig-signaling");
    fs::write(&kubeconfig, "kind would have written it").unwrap();

    desk.says("kind-fails", "");
    let complaint = desk.fails("undeploy");
    assert!(complaint.contains("cannot say which clusters there are"), "{complaint}");
    assert_eq!(desk.calls(), ["kind get clusters"]);
    desk.no_longer_says("kind-fails");

    desk.says("cluster-fails", "");
    let complaint = desk.fails("undeploy");
    assert!(complaint.contains("kind delete cluster --name signaling"), "{complaint}");
    assert_eq!(desk.calls().last(), Some(&asks_whose_it_is()));
    desk.no_longer_says("cluster-fails");

    assert!(kubeconfig.exists());
    desk.makes("undeploy");
    assert_eq!(desk.calls().last().map(String::as_str), Some(DELETE_CLUSTER));
    assert!(!kubeconfig.exists());
}

#[test]
fn a_cluster_whose_name_only_looks_like_ours_is_another() {
    let desk = Desk::with(&ALL).having("CLUSTER", "a.b");
    desk.says("clusters", "acb\n");
    desk.makes("undeploy");
    assert_eq!(desk.calls(), ["kind get clusters"]);
}

#[test]
fn the_secret_has_all_that_the_pods_read_of_it() {
    let desk = Desk::with(&ALL);
    desk.makes("deploy");
    let files = fs::read_to_string(desk.dir.path().join("secret-files")).unwrap();
    let mut made = BTreeSet::new();
    for line in files.lines().filter(|line| !line.ends_with(" total")) {
        let (length, name) = line.trim().split_once(' ').unwrap();
        assert!(length.parse::<u32>().unwrap() >= 16, "{line}");
        made.insert(name.to_owned());
    }
    for rendered in Rendered::meshes() {
        for pod in rendered.pods() {
            let variables = list(&pod.container()["env"]).iter().map(|variable| &variable["valueFrom"]["secretKeyRef"]);
            let files = list(&pod.spec()["volumes"]).iter().flat_map(|volume| list(&volume["secret"]["items"]));
            for key in variables.chain(files).filter_map(|entry| entry["key"].as_str()) {
                assert!(made.contains(key), "{}: {key}", pod.name());
            }
            for flag in ["--mesh-secret-file", "--hash-seed-file", "--admin-token-file"] {
                let Some(path) = pod.flag(flag) else { continue };
                let name = path.strip_prefix("/run/secrets/signaling/").unwrap();
                let items = list(&pod.spec()["volumes"]).iter().flat_map(|volume| list(&volume["secret"]["items"]));
                assert!(items.into_iter().any(|item| item["path"] == name), "{flag}");
            }
        }
    }
}

#[test]
fn the_harness_runs_as_a_job_with_the_words_it_is_given() {
    let desk = Desk::with(&ALL).having("LOAD", "calls --rate 200");
    desk.says("clusters", "signaling\n");
    desk.makes("load-kind");
    let rendered = fs::read_to_string(desk.target().join("deploy/load.yaml")).unwrap();
    for word in ["calls", "--rate", "200", "--url", "ws://signaling:80"] {
        assert!(rendered.contains(&format!("          - '{word}'\n")), "{rendered}");
    }
    let expected = [
        "kind get clusters",
        "kind export kubeconfig --name signaling --kubeconfig @/kubeconfig-signaling",
        &asks_for_variables(KUBECTL_OF_KIND),
        "kubectl kustomize @/load",
        &format!("{KUBECTL_OF_KIND} --namespace signaling delete job mesh-load --ignore-not-found"),
        &format!("{KUBECTL_OF_KIND} apply -f @/load.yaml"),
        &format!(
            "{KUBECTL_OF_KIND} --namespace signaling wait --for=jsonpath={{.status.ready}}=1 --timeout=120s job/mesh-load"
        ),
        &format!("{KUBECTL_OF_KIND} --namespace signaling logs --follow job/mesh-load"),
    ];
    assert_eq!(desk.calls()[..expected.len()], expected);

    let complaint = Desk::with(&ALL).fails("load-kind");
    assert!(complaint.contains("make deploy creates it"), "{complaint}");
}

#[test]
fn what_a_kubectl_renders_for_a_registry_with_a_port_is_what_kubernetes_takes() {
    let Some(kubectl) = tool("kubectl") else { return };
    let desk = Desk::with(&["kubectl"]).having("CONTEXT", "prod").having("REGISTRY", "registry.test:5000/team");
    let desk = desk.having("LOAD", "calls --rate 200");
    desk.says("real-kubectl", &kubectl.display().to_string());
    let printed = desk.makes("manifests");
    desk.makes("load-kind");
    let applied = fs::read_to_string(desk.target().join("deploy/load.yaml")).unwrap();
    let all = [Rendered::read("manifests", printed), Rendered::read("load", applied)];

    let [mesh, load] = &all;
    let programs: Vec<_> = mesh.pods().into_iter().chain(load.pods()).filter(|pod| pod.program().is_some()).collect();
    assert_eq!(programs.len(), 3);
    for pod in programs {
        assert_eq!(pod.container()["image"], "registry.test:5000/team/signaling-mesh:v1", "{}", pod.name());
    }
    assert_eq!(load.pod("mesh-load").arguments(), ["calls", "--rate", "200", "--url", "ws://signaling:80"]);
    fit_the_schemas(&all);
    lose_nothing_in_their_types(&all);
}

#[test]
fn the_harness_does_not_come_to_a_mesh_that_asks_for_what_it_has_not() {
    let desk = Desk::with(&["kubectl"]).having("CONTEXT", "prod").having("REGISTRY", "registry.test/team");
    for (variables, why) in [
        ("SIGNALING_TOKEN_KEY_FILE SIGNALING_MAX_SOCKETS", "asks clients for tokens"),
        ("SIGNALING_ALLOW_ANONYMOUS SIGNALING_TLS_CERT", "speak TLS"),
    ] {
        desk.says("variables", variables);
        let complaint = desk.fails("load-kind");
        assert!(complaint.contains(why) && complaint.contains(" in prod "), "{complaint}");
        assert_eq!(desk.calls(), [asks_for_variables("kubectl --context prod")]);
    }
    desk.no_longer_says("variables");
    let complaint = desk.fails("load-kind");
    assert!(complaint.contains("there is no mesh in prod"), "{complaint}");

    let complaint = Desk::with(&["kubectl"]).having("CONTEXT", "prod").fails("load-kind");
    assert!(complaint.contains("REGISTRY="), "{complaint}");
}

#[test]
fn hints_name_the_cluster_that_they_are_about() {
    let desk = Desk::with(&ALL).hurried().having("CONTEXT", "prod").having("REGISTRY", "registry.test/team");
    desk.says("job", "/");
    let complaint = desk.fails("load-kind");
    let hint = "kubectl --context prod --namespace signaling describe job mesh-load";
    assert!(complaint.contains(hint), "{complaint}");

    let desk = Desk::with(&ALL).hurried();
    desk.says("clusters", "signaling\n");
    desk.says("job", "/");
    let complaint = desk.fails("load-kind");
    let complaint = complaint.replace(&desk.target().join("deploy").display().to_string(), "@");
    let hint = format!("{KUBECTL_OF_KIND} --namespace signaling describe job mesh-load");
    assert!(complaint.contains(&hint), "{complaint}");
}
