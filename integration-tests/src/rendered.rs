//! Manifests as `kubectl kustomize` renders them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::missing;

/// The overlays, and one with all components.
const MESHES: [&str; 4] = [
    "deploy/overlays/kind",
    "deploy/overlays/production",
    "deploy/overlays/production-tls",
    "integration-tests/manifests/with-components",
];

/// Returns the root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// All objects of one folder.
pub struct Rendered {
    /// Path of the folder, relative to the repository.
    pub folder: &'static str,
    /// Manifests, in the order of `kubectl kustomize`.
    pub objects: Vec<Value>,
}

impl Rendered {
    /// Renders all meshes. Without `kubectl` prints that the test is skipped and returns none, but
    /// panics with `CI=true`.
    pub fn meshes() -> Vec<Self> {
        let run = Command::new(repository().join(".ci/tool")).arg("kubectl").output().unwrap();
        if !run.status.success() {
            missing("kubectl", &format!("kubectl, by .ci/tool: {}", String::from_utf8_lossy(&run.stderr).trim()));
            return Vec::new();
        }
        let kubectl = PathBuf::from(String::from_utf8(run.stdout).unwrap().trim());
        MESHES.iter().map(|folder| Self::of(&kubectl, folder)).collect()
    }

    fn of(kubectl: &Path, folder: &'static str) -> Self {
        let run = Command::new(kubectl).arg("kustomize").arg(repository().join(folder)).output().unwrap();
        assert!(run.status.success(), "{folder}: {}", String::from_utf8_lossy(&run.stderr));
        Self { folder, objects: serde_saphyr::from_multiple(str::from_utf8(&run.stdout).unwrap()).unwrap() }
    }

    /// Returns the object of this kind and name. Panics if there is none.
    pub fn object(&self, kind: &str, name: &str) -> &Value {
        let found = self.objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("{}: no {kind} {name}", self.folder))
    }
}

/// Returns the elements of a list, or none if there is no list.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Asserts that a generated document of the repository, at the relative `path`, equals `text`.
/// Writes it first if the environment variable `variable` is set.
pub fn assert_document(path: &str, text: &str, variable: &str) {
    let file = repository().join(path);
    if std::env::var_os(variable).is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let committed = std::fs::read_to_string(file).unwrap();
    assert!(committed == text, "{path} differs from the code: write it with {variable}=1");
}
