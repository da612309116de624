//! A service in a Kubernetes API, followed by the real client.

pub(crate) mod dns;
pub(crate) mod logs;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use signaling_api_standin::{ApiServer, Pod, Slice};
use signaling_discovery::kubernetes::KubernetesSettings;
use signaling_discovery::{Discovery, Settings, Subject, watch_with};
use signaling_membership::View;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Longer than any operation takes with these settings.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(6);
/// Longer than a change takes to reach the view without faults, shorter than any repair.
pub(crate) const CHANGE_TIMEOUT: Duration = Duration::from_millis(500);
pub(crate) const HOLD: Duration = Duration::from_millis(800);
/// Time after which a watch counts as working.
const PROVEN: Duration = Duration::from_millis(300);
pub(crate) const SOURCE: &str = "kubernetes:calls/signaling-nodes:internal";

pub(crate) struct Cluster {
    pub(crate) api: ApiServer,
    pub(crate) discovery: Discovery,
    shown: Arc<Mutex<Vec<String>>>,
    _recording: AbortOnDropHandle<()>,
    _kubeconfig: TempDir,
}

impl Cluster {
    /// Waits until the view has these members, with a mark on draining ones.
    pub(crate) async fn becomes(&self, members: &str) {
        self.becomes_within(TIMEOUT, members).await;
    }

    pub(crate) async fn becomes_within(&self, limit: Duration, members: &str) {
        let mut views = self.discovery.subscribe();
        let reached = timeout(limit, views.wait_for(|view| shown(view) == members)).await.is_ok();
        assert!(reached, "not {members:?} after {limit:?}, but {:?}", self.members());
    }

    pub(crate) fn members(&self) -> String {
        shown(&self.discovery.subscribe().borrow())
    }

    pub(crate) fn history(&self) -> Vec<String> {
        self.shown.lock().unwrap().clone()
    }

    /// Follows pods in a slice of a simulated API until the view has them and the watch works.
    pub(crate) async fn of(pods: &[&str]) -> Self {
        let api = ApiServer::start().await;
        api.put(&slice("one", pods));
        let cluster = Self::following(api, Subject::Nodes).await;
        cluster.becomes(&pods.join(" ")).await;
        cluster.is_watched().await;
        cluster
    }

    pub(crate) async fn following(api: ApiServer, subject: Subject) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        api.write_kubeconfig(&kubeconfig);
        let settings = Settings { subject, ..settings(Some(kubeconfig)) };
        let discovery = watch_with(SOURCE.parse().unwrap(), &settings).await.unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let recording = tokio::spawn(record(discovery.subscribe(), Arc::clone(&shown)));
        Self { api, discovery, shown, _recording: AbortOnDropHandle::new(recording), _kubeconfig: dir }
    }

    /// Waits for this many lists after `cause`.
    pub(crate) async fn lists(&self, further: usize, cause: impl FnOnce(&ApiServer)) {
        let before = self.asked("list");
        cause(&self.api);
        eventually("list", || self.asked("list") >= before + further).await;
    }

    /// Waits until changes arrive by a watch instead of lists.
    pub(crate) async fn is_watched(&self) {
        let start = Instant::now();
        loop {
            let asked = self.api.asked();
            sleep(PROVEN + PROVEN / 3).await;
            if asked.last().is_some_and(|last| last.verb == "watch") && self.api.asked() == asked {
                return;
            }
            assert!(start.elapsed() < TIMEOUT, "no lasting watch within {TIMEOUT:?}");
        }
    }

    pub(crate) fn asked(&self, verb: &str) -> usize {
        self.api.asked().iter().filter(|asked| asked.verb == verb).count()
    }

    /// Ends all faults and waits until a change arrives by a watch again.
    pub(crate) async fn is_healed(&self) {
        self.api.recovers();
        self.api.put(&slice("healed", &["z"]));
        eventually("repaired watch", || self.members().contains('z')).await;
        self.is_watched().await;
        assert!(self.discovery.age() < settings(None).kubernetes.watch_duration, "{:?}", self.discovery.age());
    }
}

/// Returns a slice of serving pods, one address each, by the first letter of their names.
pub(crate) fn slice(name: &str, pods: &[&str]) -> Slice {
    Slice::new(name, 7900, pods.iter().map(|name| pod(name)))
}

pub(crate) fn pod(name: &str) -> Pod {
    Pod::serving(name, &format!("10.0.0.{}", name.as_bytes()[0]))
}

/// Returns settings with times about 1/20 of the defaults.
pub(crate) fn settings(kubeconfig: Option<PathBuf>) -> Settings {
    let millis = Duration::from_millis;
    let kubernetes = KubernetesSettings {
        kubeconfig,
        answer_timeout: millis(500),
        watch_duration: millis(2000),
        silence_grace: millis(300),
        proven_after: PROVEN,
        resync_interval: Duration::from_secs(60),
        min_backoff: millis(50),
        max_backoff: millis(400),
    };
    Settings { hold: HOLD, kubernetes, ..Settings::default() }
}

pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "no {what} within {TIMEOUT:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn record(mut views: tokio::sync::watch::Receiver<Arc<View>>, history: Arc<Mutex<Vec<String>>>) {
    loop {
        history.lock().unwrap().push(shown(&views.borrow_and_update()));
        if views.changed().await.is_err() {
            return;
        }
    }
}

fn shown(view: &View) -> String {
    let members =
        view.members().iter().map(|member| format!("{}{}", member.id, if member.draining { "!" } else { "" }));
    members.collect::<Vec<_>>().join(" ")
}
