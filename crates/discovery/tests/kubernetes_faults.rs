//! Faults of an API server leave the view correct or unchanged. Uses the real client over sockets.

mod support;

use std::time::Duration;

use signaling_api_standin::{ApiServer, Expiry, Fault, Faults, Slice};
use signaling_discovery::watch_with;
use support::logs::Logs;
use support::{CHANGE_TIMEOUT, Cluster, HOLD, SOURCE, eventually, pod, settings, slice};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn watch_that_ends_at_its_time_goes_on_without_a_list() {
    let cluster = Cluster::of(&["a", "b"]).await;
    let (lists, watches) = (cluster.asked("list"), cluster.asked("watch"));
    eventually("two more watches", || cluster.asked("watch") >= watches + 2).await;
    cluster.api.put(&slice("two", &["c"]));
    cluster.becomes_within(CHANGE_TIMEOUT, "a b c").await;
    assert_eq!(cluster.asked("list"), lists);
}

#[tokio::test]
async fn expired_version_is_healed_by_a_list() {
    let at_begin = |api: &ApiServer| {
        api.expires(Expiry::Event);
        api.ends_watches();
    };
    let expiries: [fn(&ApiServer); 3] = [|api| api.expires(Expiry::Event), at_begin, |api| api.expires(Expiry::Status)];
    for expire in expiries {
        expires_in(Cluster::of(&["a", "b"]).await, expire).await;
    }
}

#[tokio::test]
async fn expired_version_of_a_working_watch_causes_a_list() {
    let cluster = Cluster::of(&["a", "b"]).await;
    sleep(settings(None).kubernetes.proven_after * 2).await;
    expires_in(cluster, |api| api.expires(Expiry::Event)).await;
}

async fn expires_in(cluster: Cluster<ApiServer>, expire: impl FnOnce(&ApiServer)) {
    let lists = cluster.asked("list");
    // Nothing is awaited between these calls: the events are dropped before the watch can send
    // them.
    cluster.api.put(&Slice::new("one", 7900, [pod("a"), pod("b").terminating()]));
    expire(&cluster.api);
    cluster.becomes("a b!").await;
    assert_eq!(cluster.asked("list"), lists + 1);
    cluster.is_healed().await;
}

#[tokio::test]
async fn changes_are_seen_with_bounded_requests_when_watches_fail() {
    let statuses = [403, 410, 429, 500, 503, 504].map(Fault::Status);
    let others = [Fault::Cut, Fault::Truncated, Fault::EndsAtOnce, Fault::Silent, Fault::Hang];
    statuses.into_iter().chain(others).map(is_seen_in_spite_of).collect::<JoinSet<()>>().join_all().await;
}

async fn is_seen_in_spite_of(fault: Fault) {
    let cluster = Cluster::of(&["a", "b"]).await;
    cluster.api.fails(Faults::of_watches(fault));
    if !matches!(fault, Fault::Cut | Fault::Truncated | Fault::Silent) {
        cluster.api.ends_watches();
    }
    cluster.api.put(&slice("two", &["c"]));
    cluster.becomes("a b c").await;
    cluster.api.put(&slice("two", &["d"]));
    cluster.becomes("a b d").await;

    let before = cluster.api.asked().len();
    sleep(Duration::from_secs(1)).await;
    let asked = cluster.api.asked().len() - before;
    assert!(asked <= 20, "{fault:?}: asked {asked} times in a second");
    cluster.is_healed().await;
}

#[tokio::test]
async fn view_only_ages_while_the_api_server_hangs_or_fails() {
    let faults = [Fault::Hang, Fault::Status(503), Fault::Status(429), Fault::Status(500)];
    faults.map(costs_nothing_but_age).into_iter().collect::<JoinSet<()>>().join_all().await;
}

async fn costs_nothing_but_age(fault: Fault) {
    let cluster = Cluster::of(&["a", "b"]).await;
    cluster.api.fails(Faults::of_both(fault));
    cluster.api.ends_watches();
    cluster.api.put(&slice("one", &["a", "c"]));
    eventually("age", || cluster.discovery.age() > Duration::from_secs(1)).await;
    assert_eq!(cluster.members(), "a b");
    cluster.is_healed().await;
    cluster.becomes("a c z").await;
}

#[tokio::test]
async fn returning_api_server_with_another_set_is_believed() {
    let logs = Logs::collect();
    let mut cluster = Cluster::of(&["a", "b"]).await;
    cluster.api.goes_away();
    // As long as ten watches; minutes with default settings.
    eventually("age", || cluster.discovery.age() > Duration::from_secs(4)).await;
    assert_eq!(cluster.members(), "a b", "the last view stays");
    assert_eq!(logs.with("keeps the last view").len(), 1, "logged once: {:?}", logs.with(""));
    assert!(logs.with("keeps the last view")[0].contains(SOURCE));

    cluster.api.forgets_all();
    cluster.api.put(&slice("three", &["c", "d", "e"]));
    cluster.api.comes_back();
    cluster.becomes("c d e").await;
    cluster.is_healed().await;
    assert_eq!(logs.with("works again").len(), 1);
    // The view was never empty.
    assert!(cluster.history()[1..].iter().all(|members| !members.is_empty()), "{:?}", cluster.history());
}

#[tokio::test]
async fn short_break_is_not_logged() {
    let logs = Logs::collect();
    let cluster = Cluster::of(&["a"]).await;
    cluster.api.expires(Expiry::Event);
    cluster.is_healed().await;
    assert_eq!(logs.with("WARN"), [""; 0]);
}

#[tokio::test]
async fn repeated_breaks_of_working_watches_are_logged_once() {
    let logs = Logs::collect();
    let cluster = Cluster::of(&["a"]).await;
    for _ in 0..5 {
        cluster.lists(1, |api| api.expires(Expiry::Event)).await;
        cluster.is_watched().await;
    }
    let warnings = logs.with("WARN");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("watches break repeatedly"), "{warnings:?}");
}

#[tokio::test]
async fn missing_role_is_named_once() {
    for status in [401, 403] {
        let logs = Logs::collect();
        let api = ApiServer::start().await;
        api.fails(Faults::of_both(Fault::Status(status)));
        api.put(&slice("one", &["a"]));
        let cluster = Cluster::following(api).await;
        cluster.lists(6, |_| {}).await;
        let warnings = logs.with("WARN");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("let this server's ServiceAccount list and watch endpointslices"), "{warnings:?}");
        cluster.is_healed().await;
    }
}

#[tokio::test]
async fn role_without_watch_is_named_once_though_lists_are_answered() {
    let logs = Logs::collect();
    let cluster = Cluster::of(&["a"]).await;
    cluster.api.fails(Faults::of_watches(Fault::Status(403)));
    cluster.lists(7, ApiServer::ends_watches).await;
    assert_eq!(logs.with("WARN").len(), 1, "{:?}", logs.with("WARN"));
}

#[tokio::test]
async fn two_alternating_errors_are_logged_once_each() {
    let logs = Logs::collect();
    let cluster = Cluster::of(&["a"]).await;
    cluster.api.fails(Faults::of_watches(Fault::Status(403)));
    cluster.api.delete("calls", "one");
    cluster.lists(7, ApiServer::ends_watches).await;
    let warnings = logs.with("keeps the last view");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("has become empty") && warnings[1].contains("access denied"), "{warnings:?}");
    assert_eq!(logs.with("works again"), [""; 0]);
    cluster.is_healed().await;
    assert_eq!(logs.with("works again").len(), 1);
}

#[tokio::test]
async fn service_that_is_suddenly_empty_is_not_believed() {
    let cluster = Cluster::of(&["a", "b"]).await;
    cluster.api.delete("calls", "one");
    sleep(3 * HOLD).await;
    assert_eq!(cluster.members(), "a b");
    assert!(cluster.discovery.age() > 2 * HOLD, "{:?}", cluster.discovery.age());

    cluster.api.put(&slice("two", &["b", "c"]));
    cluster.becomes("b c").await;
    assert!(cluster.discovery.age() < HOLD + CHANGE_TIMEOUT, "{:?}", cluster.discovery.age());
    assert_eq!(cluster.history(), ["", "a b", "a b c", "b c"]);
}

#[tokio::test]
async fn list_that_is_suddenly_empty_is_not_believed() {
    let logs = Logs::collect();
    let cluster = Cluster::of(&["a", "b"]).await;
    cluster.lists(1, ApiServer::forgets_all).await;
    sleep(3 * HOLD).await;
    assert_eq!(cluster.members(), "a b");
    assert!(cluster.discovery.age() > 2 * HOLD, "{:?}", cluster.discovery.age());
    assert_eq!(logs.with("has become empty").len(), 1, "{:?}", logs.with("WARN"));

    cluster.api.put(&slice("two", &["b", "c"]));
    cluster.becomes("b c").await;
    assert_eq!(cluster.history(), ["", "a b", "a b c", "b c"]);
    assert_eq!(logs.with("works again").len(), 1);
}

#[tokio::test]
async fn first_list_is_awaited_when_no_api_server_runs_at_start() {
    let mut api = ApiServer::start().await;
    api.goes_away();
    api.put(&slice("one", &["a"]));
    let mut cluster = Cluster::following(api).await;
    assert!(timeout(CHANGE_TIMEOUT, cluster.discovery.first_reading()).await.is_err());
    assert_eq!(cluster.members(), "");
    cluster.api.comes_back();
    timeout(support::TIMEOUT, cluster.discovery.first_reading()).await.expect("still no reading");
    cluster.becomes("a").await;
}

#[tokio::test]
async fn service_without_pods_counts_as_read() {
    let cluster = Cluster::following(ApiServer::start().await).await;
    timeout(support::TIMEOUT, cluster.discovery.first_reading()).await.expect("no reading");
    assert_eq!(cluster.members(), "");
    cluster.api.put(&slice("one", &["a"]));
    cluster.becomes("a").await;
}

#[tokio::test]
async fn missing_kubeconfig_is_a_start_error() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(Some(dir.path().join("absent")));
    let error = watch_with(SOURCE.parse().unwrap(), &settings).await.err().unwrap();
    assert!(error.to_string().contains("absent"), "{error}");
}
