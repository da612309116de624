//! Changes and faults of a followed file. Time is paused: it advances only while all tasks wait.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use signaling_discovery::{Discovery, Source, watch};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

/// Long enough for several readings.
const A_WHILE: Duration = Duration::from_secs(1);
/// Longer than the interval of readings.
const MAX_GOOD_AGE: Duration = Duration::from_millis(500);

#[tokio::test(start_paused = true)]
async fn file_that_comes_later_fills_an_empty_view() {
    let mesh = Mesh::absent();
    let discovery = mesh.watch().await;
    assert!(discovery.subscribe().borrow().is_empty());
    sleep(A_WHILE).await;
    assert!(discovery.age() >= A_WHILE);
    mesh.replace(&list(&["a"]));
    next_is(&discovery, &["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn last_view_stays_while_the_file_is_unusable() {
    let half = &list(&["a", "b"])[..40];
    for content in [Some(half), Some(""), Some("[]"), None] {
        let mesh = Mesh::with(&["a"]);
        let discovery = mesh.watch().await;
        let receiver = discovery.subscribe();
        sleep(A_WHILE).await;
        assert!(discovery.age() <= MAX_GOOD_AGE, "{:?}", discovery.age());
        match content {
            Some(content) => mesh.replace(content),
            None => fs::remove_file(&mesh.path).unwrap(),
        }
        sleep(A_WHILE).await;
        assert!(discovery.age() >= A_WHILE / 2, "the fault was not noticed");
        assert!(!receiver.has_changed().unwrap());
        assert_eq!(ids(&discovery), ["a"]);

        mesh.replace(&list(&["a", "b"]));
        next_is(&discovery, &["a", "b"]).await;
        assert!(discovery.age() <= MAX_GOOD_AGE);
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_have_the_view_size_and_failed_reads() {
    let mesh = Mesh::with(&["a", "b"]);
    let discovery = mesh.watch().await;
    assert_eq!(value(&signaling_metrics::encode(), "signaling_view_nodes"), Some(2.0));

    fs::remove_file(&mesh.path).unwrap();
    sleep(A_WHILE).await;
    let text = signaling_metrics::encode();
    assert_eq!(value(&text, "signaling_view_nodes"), Some(2.0));
    assert!(value(&text, "signaling_discovery_failures_total") >= Some(2.0), "{text}");
    assert!(value(&text, "signaling_discovery_age_seconds") >= Some(0.5), "{text}");

    mesh.replace(&list(&["a"]));
    next_is(&discovery, &["a"]).await;
    assert_eq!(value(&signaling_metrics::encode(), "signaling_view_nodes"), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_ends_following() {
    let mesh = Mesh::with(&["a"]);
    let discovery = mesh.watch().await;
    let mut receiver = discovery.subscribe();
    drop(discovery);
    assert!(timeout(A_WHILE, receiver.changed()).await.expect("the task still runs").is_err());
}

#[tokio::test]
async fn static_list_never_changes_or_ages() {
    let discovery = watch("static:a=127.0.0.1:1".parse().unwrap()).await.unwrap();
    assert_eq!(ids(&discovery), ["a"]);
    assert_eq!(discovery.age(), Duration::ZERO);
    assert!(!discovery.subscribe().has_changed().unwrap());
}

async fn next_is(discovery: &Discovery, expected: &[&str]) {
    let mut receiver = discovery.subscribe();
    let wanted = |view: &std::sync::Arc<signaling_membership::View>| view.len() == expected.len();
    timeout(A_WHILE, receiver.wait_for(wanted)).await.expect("no new view in time").unwrap();
    assert_eq!(ids(discovery), expected);
}

fn ids(discovery: &Discovery) -> Vec<String> {
    discovery.subscribe().borrow().members().iter().map(|member| member.id.to_string()).collect()
}

fn list(ids: &[&str]) -> String {
    let entries: Vec<_> = ids.iter().map(|id| format!(r#"{{"id":"{id}","address":"127.0.0.1:7900"}}"#)).collect();
    format!("[{}]", entries.join(","))
}

fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

struct Mesh {
    path: PathBuf,
    dir: TempDir,
}

impl Mesh {
    fn absent() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { path: dir.path().join("nodes.json"), dir }
    }

    fn with(ids: &[&str]) -> Self {
        let mesh = Self::absent();
        mesh.replace(&list(ids));
        mesh
    }

    fn replace(&self, content: &str) {
        let new = self.dir.path().join("new");
        fs::write(&new, content).unwrap();
        fs::rename(new, &self.path).unwrap();
    }

    async fn watch(&self) -> Discovery {
        watch(Source::File(self.path.clone())).await.unwrap()
    }
}
