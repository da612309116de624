//! Changes of pods reach the view. Faults of an API server leave it correct or unchanged. Uses the
//! real client over sockets.

use std::time::Duration;

use crate::support::logs::Logs;
use crate::support::{CHANGE_TIMEOUT, Cluster, HOLD, SOURCE, TIMEOUT, eventually, pod, settings, slice};
use signaling_api_standin::{ApiServer, Fault, Pod, Slice};
use signaling_discovery::Subject;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn pods_come_drain_and_go() {
    let cluster = Cluster::of(&["a", "b"]).await;
    let put = |pods: Vec<Pod>| cluster.api.put(&Slice::new("one", 7900, pods));
    put(vec![pod("a"), pod("b"), Pod { serving: false, ..pod("c") }]);
    put(vec![pod("a"), pod("b"), pod("c")]);
    cluster.becomes_within(CHANGE_TIMEOUT, "a b c").await;
    put(vec![pod("a"), Pod { terminating: true, ..pod("b") }, pod("c")]);
    cluster.becomes_within(CHANGE_TIMEOUT, "a b! c").await;
    // A draining node reports that it is not ready.
    put(vec![pod("a"), Pod { serving: false, terminating: true, ..pod("b") }, pod("c")]);
    sleep(2 * HOLD).await;
    assert_eq!(cluster.members(), "a b! c");
    put(vec![pod("a"), pod("c")]);
    cluster.becomes_within(CHANGE_TIMEOUT, "a c").await;
    put(vec![pod("a"), Pod { serving: false, ..pod("c") }]);
    sleep(HOLD / 2).await;
    assert_eq!(cluster.members(), "a c");
    cluster.becomes("a").await;
    assert_eq!(cluster.history()[1..], ["a b", "a b c", "a b! c", "a c", "a"]);
}

#[tokio::test]
async fn unready_peer_stays_and_terminating_peer_drains() {
    let api = ApiServer::start().await;
    api.put(&slice("one", &["a", "b"]));
    let cluster = Cluster::following(api, Subject::Peers).await;
    cluster.becomes("a b").await;
    let put = |pods: Vec<Pod>| cluster.api.put(&Slice::new("one", 7900, pods));
    put(vec![pod("a"), Pod { serving: false, ..pod("b") }, Pod { serving: false, ..pod("c") }]);
    cluster.becomes_within(CHANGE_TIMEOUT, "a b c").await;
    sleep(2 * HOLD).await;
    assert_eq!(cluster.members(), "a b c");
    put(vec![pod("a"), Pod { serving: false, terminating: true, ..pod("b") }, pod("c")]);
    cluster.becomes_within(CHANGE_TIMEOUT, "a b! c").await;
}

#[tokio::test]
async fn slices_of_other_services_are_ignored() {
    let cluster = Cluster::of(&["a"]).await;
    cluster.api.put(&Slice { service: "other".into(), ..slice("two", &["x"]) });
    cluster.api.put(&Slice { namespace: "other".into(), ..slice("three", &["y"]) });
    cluster.api.put(&slice("four", &["b"]));
    cluster.becomes("a b").await;
}

#[tokio::test]
async fn watch_that_ends_at_its_time_goes_on_without_a_list() {
    let cluster = Cluster::of(&["a", "b"]).await;
    let (lists, watches) = (cluster.asked("list"), cluster.asked("watch"));
    let young = settings(None).kubernetes.watch_duration;
    eventually("two more watches", || {
        assert!(cluster.discovery.age() < young, "{:?}", cluster.discovery.age());
        cluster.asked("watch") >= watches + 2
    })
    .await;
    cluster.api.put(&slice("two", &["c"]));
    cluster.becomes_within(CHANGE_TIMEOUT, "a b c").await;
    assert_eq!(cluster.asked("list"), lists);
}

#[tokio::test]
async fn expired_version_is_healed_by_a_list() {
    for is_at_begin in [false, true] {
        let logs = Logs::collect();
        let cluster = Cluster::of(&["a", "b"]).await;
        let lists = cluster.asked("list");
        // No await between these calls: the events are dropped before the watch can send them.
        cluster.api.put(&Slice::new("one", 7900, [pod("a"), Pod { terminating: true, ..pod("b") }]));
        cluster.api.expires();
        if is_at_begin {
            cluster.api.ends_watches();
        }
        cluster.becomes("a b!").await;
        assert_eq!(cluster.asked("list"), lists + 1);
        cluster.is_healed().await;
        assert_eq!(logs.with("WARN"), [""; 0], "a short break is no reason to warn");
    }
}

#[tokio::test]
async fn changes_are_seen_with_bounded_requests_when_watches_fail() {
    let statuses = [403, 410, 429, 500, 503, 504].map(Fault::Status);
    let others = [Fault::Cut, Fault::Truncated, Fault::EndsAtOnce, Fault::Silent, Fault::Hang];
    statuses.into_iter().chain(others).map(is_seen_in_spite_of).collect::<JoinSet<()>>().join_all().await;
}

async fn is_seen_in_spite_of(fault: Fault) {
    let cluster = Cluster::of(&["a", "b"]).await;
    cluster.api.watches_fail(fault);
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
    cluster.api.fails(fault);
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
async fn repeated_breaks_of_working_watches_are_logged_once() {
    let logs = Logs::collect();
    let cluster = Cluster::of(&["a"]).await;
    for _ in 0..5 {
        cluster.lists(1, ApiServer::expires).await;
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
        api.fails(Fault::Status(status));
        api.put(&slice("one", &["a"]));
        let cluster = Cluster::following(api, Subject::Nodes).await;
        cluster.lists(6, |_| {}).await;
        let warnings = logs.with("WARN");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("let this server's ServiceAccount list and watch endpointslices"), "{warnings:?}");
        cluster.is_healed().await;
    }
}

#[tokio::test]
async fn two_alternating_errors_are_logged_once_each() {
    let logs = Logs::collect();
    let cluster = Cluster::of(&["a"]).await;
    cluster.api.watches_fail(Fault::Status(403));
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
async fn suddenly_empty_service_or_list_is_not_believed() {
    let empties: [fn(&ApiServer); 2] = [|api| api.delete("calls", "one"), ApiServer::forgets_all];
    for empty in empties {
        let logs = Logs::collect();
        let cluster = Cluster::of(&["a", "b"]).await;
        empty(&cluster.api);
        sleep(3 * HOLD).await;
        assert_eq!(cluster.members(), "a b");
        assert!(cluster.discovery.age() > 2 * HOLD, "{:?}", cluster.discovery.age());
        assert_eq!(logs.with("has become empty").len(), 1, "{:?}", logs.with("WARN"));

        cluster.api.put(&slice("two", &["b", "c"]));
        cluster.becomes("b c").await;
        assert!(cluster.discovery.age() < HOLD + CHANGE_TIMEOUT, "{:?}", cluster.discovery.age());
        assert_eq!(cluster.history(), ["", "a b", "a b c", "b c"]);
        assert_eq!(logs.with("works again").len(), 1);
    }
}

#[tokio::test]
async fn first_list_is_awaited_when_no_api_server_runs_at_start() {
    let mut api = ApiServer::start().await;
    api.goes_away();
    api.put(&slice("one", &["a"]));
    let mut cluster = Cluster::following(api, Subject::Nodes).await;
    assert!(timeout(CHANGE_TIMEOUT, cluster.discovery.first_reading()).await.is_err());
    assert_eq!(cluster.members(), "");
    cluster.api.comes_back();
    timeout(TIMEOUT, cluster.discovery.first_reading()).await.expect("still no reading");
    cluster.becomes("a").await;
}

#[tokio::test]
async fn service_without_pods_counts_as_read() {
    let cluster = Cluster::following(ApiServer::start().await, Subject::Nodes).await;
    timeout(TIMEOUT, cluster.discovery.first_reading()).await.expect("no reading");
    assert_eq!(cluster.members(), "");
    cluster.api.put(&slice("one", &["a"]));
    cluster.becomes("a").await;
}
