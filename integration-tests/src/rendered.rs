//! Manifests as `kubectl kustomize` renders them, and the tools that read them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::optional::missing;

/// The repository.
#[must_use]
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A tool for Kubernetes that is new enough, fetched if need be; none where it cannot be had.
#[must_use]
pub fn tool(name: &str) -> Option<PathBuf> {
    let run = Command::new(repository().join(".ci/tool")).arg(name).output().unwrap();
    if !run.status.success() {
        missing(name, &format!("{name}, by .ci/tool: {}", String::from_utf8_lossy(&run.stderr).trim()));
        return None;
    }
    Some(PathBuf::from(String::from_utf8(run.stdout).unwrap().trim()))
}

/// All objects of one folder of `deploy/`.
pub struct Rendered {
    /// The folder.
    pub folder: &'static str,
    /// The text that would be applied.
    pub yaml: String,
    /// The same, object by object.
    pub objects: Vec<Value>,
}

/// The overlays, and one as somebody might write it who wants all components.
const MESHES: [&str; 4] = [
    "overlays/kind",
    "overlays/production",
    "overlays/production-tls",
    "../integration-tests/manifests/with-components",
];
/// The harness.
const LOAD: &str = "load";

impl Rendered {
    /// All that is applied as it is, or nothing where no `kubectl` can be had.
    #[must_use]
    pub fn all() -> Vec<Self> {
        Self::these(&[&MESHES[..], &[LOAD]].concat())
    }

    /// The meshes among them, without the harness.
    #[must_use]
    pub fn meshes() -> Vec<Self> {
        Self::these(&MESHES)
    }

    fn these(folders: &[&'static str]) -> Vec<Self> {
        let Some(kubectl) = tool("kubectl") else { return Vec::new() };
        folders.iter().map(|folder| Self::of(&kubectl, folder)).collect()
    }

    fn of(kubectl: &Path, folder: &'static str) -> Self {
        let run =
            Command::new(kubectl).arg("kustomize").arg(repository().join("deploy").join(folder)).output().unwrap();
        assert!(run.status.success(), "{folder}: {}", String::from_utf8_lossy(&run.stderr));
        Self::read(folder, String::from_utf8(run.stdout).unwrap())
    }

    /// What was rendered elsewhere, under a name in place of the folder.
    #[must_use]
    pub fn read(folder: &'static str, yaml: String) -> Self {
        let objects = serde_saphyr::from_multiple(&yaml).unwrap();
        Self { folder, yaml, objects }
    }

    /// Whether it brings the store of rooms along; else that is somebody else's.
    #[must_use]
    pub fn has_store(&self) -> bool {
        self.pods().iter().any(|pod| pod.name() == "signaling-redis")
    }

    /// The objects of a kind.
    pub fn kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| object["kind"] == kind)
    }

    /// One object.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn object(&self, kind: &str, name: &str) -> &Value {
        let found = self.objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("{}: no {kind} {name}", self.folder))
    }

    /// The pods that Deployments and Jobs make.
    #[must_use]
    pub fn pods(&self) -> Vec<Pod<'_>> {
        let makers = self.kind("Deployment").chain(self.kind("Job"));
        makers.map(|owner| Pod { owner, template: &owner["spec"]["template"] }).collect()
    }

    /// The pods of one Deployment or Job.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn pod(&self, name: &str) -> Pod<'_> {
        let found = self.pods().into_iter().find(|pod| pod.name() == name);
        found.unwrap_or_else(|| panic!("{}: no pods {name}", self.folder))
    }
}

/// A pod with its one container.
#[derive(Clone, Copy)]
pub struct Pod<'a> {
    /// What makes it.
    pub owner: &'a Value,
    /// It, as it would be made.
    pub template: &'a Value,
}

impl<'a> Pod<'a> {
    /// The name of what makes it.
    #[must_use]
    pub fn name(self) -> &'a str {
        self.owner["metadata"]["name"].as_str().unwrap()
    }

    /// Its labels.
    #[must_use]
    pub fn labels(self) -> &'a Value {
        &self.template["metadata"]["labels"]
    }

    /// Its `spec`.
    #[must_use]
    pub fn spec(self) -> &'a Value {
        &self.template["spec"]
    }

    /// Its container.
    #[must_use]
    pub fn container(self) -> &'a Value {
        assert_eq!(list(&self.spec()["containers"]).len(), 1);
        &self.spec()["containers"][0]
    }

    /// The program of ours that it runs, if it is one.
    #[must_use]
    pub fn program(self) -> Option<&'a str> {
        let path = self.container()["command"][0].as_str()?;
        path.strip_prefix('/')
    }

    /// The words after the program.
    #[must_use]
    pub fn arguments(self) -> Vec<&'a str> {
        list(&self.container()["args"]).iter().filter_map(Value::as_str).collect()
    }

    /// The value of a flag, as `--flag=value`.
    #[must_use]
    pub fn flag(self, flag: &str) -> Option<&'a str> {
        self.arguments().into_iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='))
    }

    /// The variables with the values that the manifest itself gives.
    pub fn variables(self) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
        list(&self.container()["env"]).iter().map(|entry| (entry["name"].as_str().unwrap(), entry["value"].as_str()))
    }

    /// The value of a variable.
    #[must_use]
    pub fn variable(self, name: &str) -> Option<&'a str> {
        self.variables().find(|(other, _)| *other == name)?.1
    }

    /// What Kubernetes makes of `$(NAME)` in its words.
    #[must_use]
    pub fn expanded(self, text: &str) -> String {
        text.replace("$(POD_NAME)", self.name()).replace("$(POD_NAMESPACE)", "signaling")
    }

    /// Its ports by name.
    #[must_use]
    pub fn ports(self) -> Vec<(&'a str, u64)> {
        let port = |port: &'a Value| (port["name"].as_str().unwrap(), port["containerPort"].as_u64().unwrap());
        list(&self.container()["ports"]).iter().map(port).collect()
    }
}

/// The elements of a list; none if there is no list.
#[must_use]
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Whether a selector takes these labels.
#[must_use]
pub fn selects(selector: &Value, labels: &Value) -> bool {
    let pairs = selector["matchLabels"].as_object();
    let expressions = list(&selector["matchExpressions"]).iter().all(|expression| {
        assert_eq!(expression["operator"], "In", "no other operator is read here");
        list(&expression["values"]).contains(&labels[expression["key"].as_str().unwrap()])
    });
    expressions && pairs.is_none_or(|pairs| pairs.iter().all(|(key, value)| labels[key] == *value))
}
