//! What `make deploy` would apply is what Kubernetes takes: by its published schemas, and by its types.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use signaling_integration_tests::rendered::{Rendered, repository, tool};

/// The oldest release that has all that the manifests use without a switch, and the newest that the schemas are there for.
const RELEASES: [&str; 2] = ["1.30.0", "1.37.0"];

#[test]
fn a_kubectl_that_is_new_enough_renders_them() {
    let Some(kubectl) = tool("kubectl") else { return };
    let version = Command::new(kubectl).args(["version", "--client"]).output().unwrap();
    println!("{}", String::from_utf8_lossy(&version.stdout).trim().replace('\n', ", "));
    assert!(Rendered::all().iter().all(|rendered| !rendered.objects.is_empty()));
}

#[test]
fn they_fit_the_schemas_of_kubernetes_strictly() {
    fit_the_schemas(&Rendered::all());
}

#[test]
fn nothing_of_them_is_lost_on_the_way_through_the_types_of_kubernetes() {
    lose_nothing_in_their_types(&Rendered::all());
}

#[test]
fn the_overlays_that_the_readme_shows_are_taken_too() {
    let Some(kubectl) = tool("kubectl") else { return };
    let readme = std::fs::read_to_string(repository().join("deploy/README.md")).unwrap();
    let code = readme.split("```").skip(1).step_by(2);
    let blocks: Vec<&str> = code.filter_map(|block| block.strip_prefix("yaml\n")).collect();
    assert_eq!(blocks.len(), 3);
    let names = ["names", "rooms", "store"].into_iter();
    let all: Vec<Rendered> = names.zip(blocks).map(|(name, block)| shown(&kubectl, name, block)).collect();

    assert_eq!(all[0].object("NetworkPolicy", "signaling-names")["metadata"]["namespace"], "signaling");
    assert_eq!(all[1].pod("signaling-nodes").variable("SIGNALING_ROOM_CAPACITY"), Some("200"));
    assert!(all[1].has_store() && !all[2].has_store());
    fit_the_schemas(&all);
    lose_nothing_in_their_types(&all);
}

/// Production with a further resource, or with patches, or the overlay that a block is.
fn shown(kubectl: &Path, name: &'static str, block: &str) -> Rendered {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().canonicalize().unwrap();
    let overlay = if block.starts_with("apiVersion:") {
        std::fs::write(folder.join("further.yaml"), block).unwrap();
        "resources: [../production, further.yaml]\n".to_owned()
    } else if block.starts_with("patches:") {
        format!("resources: [../production]\n{block}")
    } else {
        block.to_owned()
    };
    // Other folders go by relative paths only.
    let deploy = repository().canonicalize().unwrap().join("deploy").display().to_string();
    let deploy = format!("{}{}", "../".repeat(folder.components().count() - 1), deploy.trim_start_matches('/'));
    let overlay = overlay.replace("../../components", &format!("{deploy}/components"));
    let overlay = overlay.replace("../production", &format!("{deploy}/overlays/production"));
    std::fs::write(folder.join("kustomization.yaml"), format!("namespace: signaling\n{overlay}")).unwrap();

    let run = Command::new(kubectl).arg("kustomize").arg(&folder).output().unwrap();
    assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
    Rendered::read(name, String::from_utf8(run.stdout).unwrap())
}

#[test]
fn a_misspelt_field_and_a_wrong_type_would_be_noticed() {
    let misspelt = serde_json::json!({ "kind": "Service", "spec": { "prots": [] } });
    let mut lost = Vec::new();
    differences(&misspelt, &through_its_type(&misspelt), String::new(), &mut lost);
    assert_eq!(lost, ["/spec/prots"]);
    let wrong = serde_json::json!({ "kind": "Service", "spec": { "ports": "80" } });
    assert!(std::panic::catch_unwind(|| through_its_type(&wrong)).is_err());
}

#[test]
fn kind_takes_the_configuration_of_its_cluster() {
    let Some(kind) = tool("kind") else { return };
    let config = std::fs::read_to_string(repository().join("deploy/kind.yaml")).unwrap();
    // It reads its configuration before it looks for docker, which it does not find.
    let complaint = |config: &str| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kind.yaml");
        std::fs::write(&file, config).unwrap();
        let mut create = Command::new(&kind);
        create.args(["create", "cluster", "--name", "never-created", "--config"]).arg(&file);
        create.arg("--kubeconfig").arg(dir.path().join("kubeconfig")).env("PATH", dir.path()).stdin(Stdio::null());
        String::from_utf8(create.output().unwrap().stderr).unwrap()
    };
    let taken = complaint(&config);
    assert!(taken.contains("docker") && !taken.contains("decode"), "{taken}");
    let refused = complaint(&config.replace("hostPort", "hostPorts"));
    assert!(refused.contains("field hostPorts not found"), "{refused}");
}

pub(crate) fn fit_the_schemas(all: &[Rendered]) {
    let Some(validate) = tool("kubernetes-validate") else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = |rendered: &Rendered| {
        let file = dir.path().join(rendered.folder.replace('/', "-"));
        std::fs::write(&file, &rendered.yaml).unwrap();
        file
    };
    let files: Vec<PathBuf> = all.iter().map(file).collect();
    for release in RELEASES {
        let run = Command::new(&validate).args(["-k", release, "--strict", "--quiet"]).args(&files).output().unwrap();
        let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
        assert!(run.status.success(), "Kubernetes {release}: {said}");
    }
}

pub(crate) fn lose_nothing_in_their_types(all: &[Rendered]) {
    for object in all.iter().flat_map(|rendered| &rendered.objects) {
        let mut lost = Vec::new();
        differences(object, &through_its_type(object), String::new(), &mut lost);
        assert_eq!(lost, Vec::<String>::new(), "{} {}", object["kind"], object["metadata"]["name"]);
    }
}

fn through_its_type(object: &Value) -> Value {
    fn through<T: Serialize + DeserializeOwned>(object: &Value) -> Value {
        serde_json::to_value(serde_json::from_value::<T>(object.clone()).unwrap()).unwrap()
    }
    match object["kind"].as_str().unwrap() {
        "Deployment" => through::<Deployment>(object),
        "HorizontalPodAutoscaler" => through::<HorizontalPodAutoscaler>(object),
        "Job" => through::<Job>(object),
        "Namespace" => through::<Namespace>(object),
        "NetworkPolicy" => through::<NetworkPolicy>(object),
        "PodDisruptionBudget" => through::<PodDisruptionBudget>(object),
        "Role" => through::<Role>(object),
        "RoleBinding" => through::<RoleBinding>(object),
        "Service" => through::<Service>(object),
        "ServiceAccount" => through::<ServiceAccount>(object),
        kind => panic!("{kind} has no type here yet"),
    }
}

/// The places in `before` that are not in `after`, or otherwise.
fn differences(before: &Value, after: &Value, at: String, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                let at = format!("{at}/{key}");
                // What kind it is stands in the type.
                match after.get(key) {
                    Some(other) => differences(value, other, at, found),
                    None if ["/kind", "/apiVersion"].contains(&at.as_str()) => {}
                    None => found.push(at),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (n, (value, other)) in before.iter().zip(after).enumerate() {
                differences(value, other, format!("{at}/{n}"), found);
            }
        }
        _ if before == after => {}
        _ => found.push(at),
    }
}
