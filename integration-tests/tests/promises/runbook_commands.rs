//! What the documents have somebody say to `kubectl` is about objects that the manifests have, and survives them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::process::Command;

use serde_json::Value;
use signaling_integration_tests::mesh::binaries;
use signaling_integration_tests::rendered::{Pod, Rendered, list, repository};

const DOCUMENTS: [&str; 3] = ["docs/RUNBOOK.md", "deploy/README.md", "README.md"];
/// Flags whose value is the next word.
const WITH_VALUE: [&str; 7] = ["-n", "-o", "-l", "-f", "-k", "-p", "--type"];

#[test]
fn every_command_is_about_what_the_manifests_have() {
    let meshes = Rendered::meshes();
    for document in DOCUMENTS {
        let said = said_in(&fs::read_to_string(repository().join(document)).unwrap());
        assert!(!said.is_empty(), "{document}");
        for kubectl in said {
            println!("{document}: {kubectl:?}");
            for rendered in &meshes {
                kubectl.is_in_the_namespace_of(rendered);
                kubectl.names_what_is_in(rendered);
            }
            kubectl.writes_only_secrets_that_are_read(&meshes);
            kubectl.applies_what_is_the_same_everywhere(&meshes);
            kubectl.is_understood_inside(&meshes);
        }
    }
}

#[test]
fn a_command_is_found_wherever_it_stands() {
    let text = "Say `kubectl get\npods`:\n\n    X=$(kubectl -n a get secret b -o c='{d}' | cut -f 1)\n\n```sh\ncase $Y in\n1) \
                kubectl patch hpa e -p \"{\\\"f\\\":$G}\" && kubectl logs h ;;\nesac\n```\nkubectl is no command here\n";
    let said: Vec<_> = said_in(text).into_iter().map(|kubectl| kubectl.words.join(" ")).collect();
    assert_eq!(said, ["get pods", "get secret b", "patch hpa e", "logs h"]);
}

/// One call of `kubectl`.
#[derive(Debug, Default)]
struct Kubectl {
    /// The verb, and what stands after it.
    words: Vec<String>,
    flags: Vec<(String, String)>,
    /// What is run in a pod.
    inside: Vec<String>,
}

impl Kubectl {
    fn of(words: &[String]) -> Option<Self> {
        let (program, mut rest) = words.split_first()?;
        let mut this = Self::default();
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            if word == "#" {
                break;
            }
            if word == "--" {
                this.inside = rest.to_vec();
                break;
            }
            if !word.starts_with('-') {
                this.words.push(word.clone());
            } else if WITH_VALUE.contains(&word.as_str()) {
                this.flags.push((word.clone(), rest.first()?.clone()));
                rest = &rest[1..];
            } else {
                let (flag, value) = word.split_once('=').unwrap_or((word.as_str(), ""));
                this.flags.push((flag.to_owned(), value.to_owned()));
            }
        }
        // Rendering asks no cluster.
        let asks = this.words.first().is_some_and(|verb| verb != "kustomize");
        (program == "kubectl" && asks).then_some(this)
    }

    fn flag(&self, flag: &str) -> Option<&str> {
        self.flags.iter().find(|(other, _)| other == flag).map(|(_, value)| value.as_str())
    }

    fn verb(&self) -> &str {
        &self.words[0]
    }

    /// The kind and the name of what it is about; no name where it is about all of a kind.
    fn object(&self) -> Option<(&str, Option<&str>)> {
        let at = match self.verb() {
            "rollout" | "set" => 2,
            "apply" | "create" | "auth" => return None,
            _ => 1,
        };
        let first = self.words.get(at).unwrap_or_else(|| panic!("{self:?} is about nothing")).as_str();
        Some(match first.split_once('/') {
            Some((kind, name)) => (kind, Some(name)),
            None if ["logs", "exec", "port-forward"].contains(&self.verb()) => ("pod", Some(first)),
            None => (first, self.words.get(at + 1).map(String::as_str)),
        })
    }

    fn is_in_the_namespace_of(&self, rendered: &Rendered) {
        let namespace = rendered.kind("Namespace").next().unwrap()["metadata"]["name"].as_str();
        assert_eq!(self.flag("-n"), namespace, "{self:?}");
        if let Some(account) = self.flag("--as") {
            let (namespace_of_it, name) =
                account.strip_prefix("system:serviceaccount:").unwrap().split_once(':').unwrap();
            assert_eq!(Some(namespace_of_it), namespace);
            assert_eq!(rendered.object("ServiceAccount", name)["metadata"]["name"], *name, "{self:?}");
        }
    }

    fn names_what_is_in(&self, rendered: &Rendered) {
        let Some((kind, Some(name))) = self.object() else { return };
        let object = match kind {
            "pod" => return assert!(name.starts_with('$'), "{self:?}: pods have other names each time"),
            "secret" => return assert!(secrets(rendered).contains(&name), "{self:?}: nobody reads it"),
            // Where the store of rooms is somebody else's, there is none of ours to ask.
            "deployment" if name == "signaling-redis" && !rendered.has_store() => return,
            "deployment" => rendered.object("Deployment", name),
            "service" => rendered.object("Service", name),
            "hpa" => rendered.object("HorizontalPodAutoscaler", name),
            _ => panic!("{self:?}: {kind} is not read here"),
        };
        let scales = |autoscaler: &Value| autoscaler["spec"]["scaleTargetRef"]["name"] == name;
        assert!(
            self.verb() != "scale" || !rendered.kind("HorizontalPodAutoscaler").any(scales),
            "{self:?}: its autoscaler undoes that"
        );
        if let Some(patch) = self.flag("-p") {
            assert_eq!(self.flag("--type"), Some("merge"), "{self:?}");
            let patch: Value = serde_json::from_str(&patch.replace("$REPLICAS", "5")).unwrap();
            for (field, _) in patch["spec"].as_object().unwrap() {
                assert!(object["spec"].get(field).is_some(), "{self:?}: {field} is set nowhere");
            }
        }
    }

    fn writes_only_secrets_that_are_read(&self, meshes: &[Rendered]) {
        if self.verb() != "create" || meshes.is_empty() {
            return;
        }
        let [_, _, _, name] = &self.words[..] else { panic!("{self:?} creates something else") };
        assert!(meshes.iter().any(|rendered| secrets(rendered).contains(&name.as_str())), "{self:?}: nobody reads it");
    }

    fn applies_what_is_the_same_everywhere(&self, meshes: &[Rendered]) {
        if self.verb() != "apply" || self.flag("-f") == Some("-") {
            return;
        }
        let folder = self.flag("-k").unwrap_or_else(|| panic!("{self:?} applies something else"));
        assert!(repository().join(folder).join("kustomization.yaml").is_file(), "{self:?}");
        let label = self.flag("-l").unwrap_or_else(|| panic!("{self:?} rolls out an image that nobody has pushed"));
        let (key, value) = label.split_once('=').unwrap();
        let picked = |rendered: &Rendered| -> Vec<Value> {
            let has = |object: &&Value| object["metadata"]["labels"][key] == value;
            rendered.objects.iter().filter(has).cloned().collect()
        };
        for rendered in meshes {
            let objects = picked(rendered);
            assert_eq!(objects, picked(&meshes[0]), "{}", rendered.folder);
            for kind in ["Role", "RoleBinding", "ServiceAccount", "Service"] {
                assert!(objects.iter().any(|object| object["kind"] == kind), "{self:?}: no {kind}");
            }
            assert!(!objects.iter().any(|object| object["kind"] == "Deployment"), "{self:?}");
        }
    }

    fn is_understood_inside(&self, meshes: &[Rendered]) {
        let Some((program, words)) = self.inside.split_first() else { return };
        let program = binaries().join(program.strip_prefix('/').unwrap());
        let help = Command::new(program).args(words).arg("--help").output().unwrap();
        assert!(help.status.success(), "{self:?}: {}", String::from_utf8_lossy(&help.stderr));
        let file = words.iter().position(|word| word == "--secret-file").map(|at| words[at + 1].as_str());
        let has = |pod: &Pod<'_>| pod.flag("--admin-token-file") == file;
        assert!(meshes.iter().all(|rendered| rendered.pods().iter().any(has)), "{self:?}");
    }
}

/// The Secrets that pods of a mesh read.
fn secrets(rendered: &Rendered) -> Vec<&str> {
    let pods = rendered.pods().into_iter();
    pods.flat_map(|pod| list(&pod.spec()["volumes"]))
        .filter_map(|volume| volume["secret"]["secretName"].as_str())
        .collect()
}

/// All calls in the code of a document.
fn said_in(text: &str) -> Vec<Kubectl> {
    let mut code = Vec::new();
    for (n, part) in text.split("```").enumerate() {
        if n % 2 == 1 {
            code.push(part.split_once('\n').unwrap().1.to_owned());
            continue;
        }
        let (indented, prose): (Vec<_>, Vec<_>) = part.lines().partition(|line| line.starts_with("    "));
        code.extend(prose.join(" ").split('`').skip(1).step_by(2).map(str::to_owned));
        code.extend(indented.into_iter().map(str::to_owned));
    }
    code.iter().flat_map(|code| commands(code)).filter_map(|words| Kubectl::of(&words)).collect()
}

/// The words of each command, as a shell splits them.
fn commands(code: &str) -> Vec<Vec<String>> {
    let (mut commands, mut word, mut quote, mut escaped) = (vec![Vec::new()], String::new(), None, false);
    for letter in code.chars().chain(['\n']) {
        match (quote, letter) {
            _ if escaped => {
                word.push(letter);
                escaped = false;
            }
            (None | Some('"'), '\\') => escaped = true,
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.push(letter),
            (None, '"' | '\'') => quote = Some(letter),
            (None, ' ' | '\n' | '|' | '&' | ';' | '(' | ')') => {
                if !word.is_empty() {
                    commands.last_mut().unwrap().push(std::mem::take(&mut word));
                }
                if letter != ' ' {
                    commands.push(Vec::new());
                }
            }
            (None, _) => word.push(letter),
        }
    }
    commands
}
