//! Real changes of pods in EndpointSlices reach the view, and apparent ones do not. With
//! `TEST_KUBECONFIG` the tests use a real cluster (`make test-k8s`).

mod support;

use std::time::{Duration, Instant};

use signaling_api_standin::{ApiServer, Pod, Slice};
use signaling_discovery::Subject;
use signaling_discovery::kubernetes::KubernetesSettings;
use support::{CHANGE_TIMEOUT, Cluster, HOLD, pod, settings, slice};
use tokio::time::sleep;

#[tokio::test]
async fn pods_come_drain_and_go() {
    let cluster = Cluster::in_service(&["a", "b"]).await;
    let put = |pods: Vec<Pod>| cluster.api.put(Slice::new("one", 7900, pods));
    put(vec![pod("a"), pod("b"), pod("c").unready()]).await;
    put(vec![pod("a"), pod("b"), pod("c")]).await;
    cluster.becomes_within(CHANGE_TIMEOUT, "a b c").await;
    put(vec![pod("a"), pod("b").terminating(), pod("c")]).await;
    cluster.becomes_within(CHANGE_TIMEOUT, "a b! c").await;
    // A draining node reports that it is not ready.
    put(vec![pod("a"), pod("b").terminating().unready(), pod("c")]).await;
    sleep(2 * HOLD).await;
    assert_eq!(cluster.members(), "a b! c");
    put(vec![pod("a"), pod("c")]).await;
    cluster.becomes_within(CHANGE_TIMEOUT, "a c").await;
    assert_eq!(cluster.history()[1..], ["a b", "a b c", "a b! c", "a c"]);
}

#[tokio::test]
async fn pod_that_flaps_does_not_change_the_view() {
    let cluster = Cluster::in_service(&["a", "b"]).await;
    for _ in 0..6 {
        cluster.api.put(Slice::new("one", 7900, [pod("a"), pod("b").unready()])).await;
        sleep(HOLD / 4).await;
        cluster.api.put(slice("one", &["a", "b"])).await;
        sleep(HOLD / 4).await;
    }
    assert_eq!(cluster.history()[1..], ["a b"]);
}

#[tokio::test]
async fn pod_that_stays_unready_leaves_after_a_while() {
    let cluster = Cluster::in_service(&["a", "b"]).await;
    cluster.api.put(Slice::new("one", 7900, [pod("a"), pod("b").unready()])).await;
    sleep(HOLD / 2).await;
    assert_eq!(cluster.members(), "a b");
    cluster.becomes("a").await;
}

#[tokio::test]
async fn terminating_pod_drains_even_if_never_seen_ready() {
    let cluster = Cluster::in_service(&["a"]).await;
    cluster.api.put(Slice::new("one", 7900, [pod("a"), pod("b").terminating().unready()])).await;
    cluster.becomes_within(CHANGE_TIMEOUT, "a b!").await;
    cluster.api.put(slice("one", &["a"])).await;
    cluster.becomes_within(CHANGE_TIMEOUT, "a").await;
}

#[tokio::test]
async fn unready_peer_stays_and_terminating_peer_drains() {
    let api = ApiServer::start().await;
    api.put(&slice("one", &["a", "b"]));
    let cluster = Cluster::following_as(api, Subject::Peers).await;
    cluster.becomes("a b").await;
    cluster.api.put(&Slice::new("one", 7900, [pod("a"), pod("b").unready(), pod("c").unready()]));
    cluster.becomes_within(CHANGE_TIMEOUT, "a b c").await;
    sleep(2 * HOLD).await;
    assert_eq!(cluster.members(), "a b c");
    cluster.api.put(&Slice::new("one", 7900, [pod("a"), pod("b").unready().terminating(), pod("c")]));
    cluster.becomes_within(CHANGE_TIMEOUT, "a b! c").await;
}

#[tokio::test]
async fn pod_moving_between_slices_is_present_exactly_once() {
    let cluster = Cluster::in_service(&["a", "b"]).await;
    // The order of the slices does not matter.
    cluster.api.put(slice("one", &["a"])).await;
    sleep(HOLD / 4).await;
    cluster.api.put(slice("two", &["b", "c"])).await;
    cluster.becomes_within(CHANGE_TIMEOUT, "a b c").await;
    cluster.api.put(slice("one", &["a", "b"])).await;
    sleep(HOLD / 4).await;
    cluster.api.put(slice("two", &["c"])).await;
    sleep(2 * HOLD).await;
    assert_eq!(cluster.history()[1..], ["a b", "a b c"]);
}

#[tokio::test]
async fn dual_stack_pod_counts_once_with_its_ipv4_address() {
    let cluster = Cluster::in_service(&["a", "b"]).await;
    let ipv6 = |name: &str| Pod::serving(name, &format!("fd00::{name}"));
    cluster.api.put(Slice::new("ipv6", 7900, ["a", "b", "c"].map(ipv6))).await;
    cluster.becomes_within(CHANGE_TIMEOUT, "a b c").await;
    let view = cluster.discovery.view();
    let address = |id: &str| view.get(id).unwrap().address.to_string();
    assert_eq!((address("a"), address("c")), ("10.0.0.97:7900".into(), "[fd00::c]:7900".into()));

    cluster.api.put(Slice::new("ipv6", 7900, [ipv6("a"), ipv6("b").terminating(), ipv6("c")])).await;
    cluster.becomes_within(CHANGE_TIMEOUT, "a b! c").await;
}

#[tokio::test]
async fn ports_are_found_by_name_so_a_rollout_may_change_their_number() {
    let cluster = Cluster::in_service(&["a", "b"]).await;
    cluster.api.put(Slice::new("two", 7999, [pod("c")])).await;
    cluster.api.put(Slice { port_name: "metrics".into(), ..Slice::new("three", 9000, [pod("d")]) }).await;
    cluster.becomes("a b c").await;
    assert_eq!(cluster.discovery.view().get("c").unwrap().address.as_str(), "10.0.0.99:7999");
}

#[tokio::test]
async fn slices_of_other_services_are_ignored() {
    let cluster = Cluster::in_service(&["a"]).await;
    let (namespace, other) = (cluster.api.namespace().to_owned(), format!("{}-other", cluster.api.name()));
    cluster.api.put_as_it_is(Slice { namespace, service: other, ..slice("two", &["x"]) }).await;
    cluster.api.put(slice("four", &["b"])).await;
    cluster.becomes("a b").await;
}

#[tokio::test]
async fn view_without_changes_has_a_low_age() {
    let cluster = Cluster::in_service(&["a"]).await;
    let KubernetesSettings { watch_duration, silence_grace, answer_timeout, .. } = settings(None).kubernetes;
    // A watch sends nothing between its start and its end if bookmarks come only once a minute.
    let young = watch_duration + silence_grace + answer_timeout;
    let start = Instant::now();
    while start.elapsed() < 2 * young {
        sleep(Duration::from_millis(100)).await;
        let age = cluster.discovery.age();
        assert!(age < young, "{age:?}");
    }
}
