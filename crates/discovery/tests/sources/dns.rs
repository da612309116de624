//! Nodes from DNS under all kinds of answers and faults. Uses the real resolver over sockets.

use std::time::Duration;

use crate::support::dns::DnsServer;
use crate::support::logs::Logs;
use crate::support::{TIMEOUT, eventually};
use hickory_resolver::proto::op::ResponseCode;
use signaling_discovery::dns::DnsSettings;
use signaling_discovery::{Discovery, Settings, watch, watch_with};
use tokio::time::{sleep, timeout};

const HOLD: Duration = Duration::from_millis(300);
const ADDRESSES: &str = "dns:nodes.example.com.:7900";
const SERVICES: &str = "dns:_signaling._tcp.nodes.example.com.";

#[tokio::test]
async fn each_address_is_a_node_and_changes_are_followed() {
    let (dns, discovery) = two_nodes(1).await;
    dns.addresses(&["127.0.0.2", "127.0.0.3"]);
    becomes(&discovery, "127.0.0.2=127.0.0.2:7900 127.0.0.3=127.0.0.3:7900").await;
}

#[tokio::test]
async fn address_missing_in_one_answer_stays_despite_a_long_ttl() {
    let (dns, discovery) = two_nodes(1).await;
    let (views, asked) = (discovery.subscribe(), dns.asked());
    dns.addresses(&["127.0.0.1"]);
    eventually("partial answer", || dns.asked() > asked).await;
    dns.addresses(&["127.0.0.1", "127.0.0.2"]);
    eventually("whole answer", || dns.asked() > asked + 1).await;
    sleep(2 * HOLD).await;
    assert!(!views.has_changed().unwrap(), "{}", shown(&discovery));
}

#[tokio::test]
async fn records_without_a_node_hide_no_others_and_are_logged_once() {
    let logs = Logs::collect();
    let dns = DnsServer::start(0).await;
    let (good, bad) = (("node-0.nodes.example.com.", 7900), ("node-1.nodes.example.com.", 0));
    dns.services(&[good, bad]);
    let discovery = follow(&dns, SERVICES).await;
    becomes(&discovery, "node-0=node-0.nodes.example.com:7900").await;
    dns.services(&[bad, good, ("node-2.nodes.example.com.", 7902)]);
    becomes(&discovery, "node-0=node-0.nodes.example.com:7900 node-2=node-2.nodes.example.com:7902").await;
    let warnings = logs.with("WARN");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("node-1 at node-1.nodes.example.com:0"), "{warnings:?}");
}

#[tokio::test]
async fn ipv6_addresses_count_only_where_there_is_no_other() {
    let dns = DnsServer::start(0).await;
    dns.addresses(&["fd00::1", "127.0.0.1"]);
    let discovery = follow(&dns, ADDRESSES).await;
    becomes(&discovery, "127.0.0.1=127.0.0.1:7900").await;
    dns.addresses(&["fd00::1"]);
    becomes(&discovery, "fd00::1=[fd00::1]:7900").await;
}

#[tokio::test]
async fn name_is_resolved_when_its_bounded_ttl_ends() {
    let millis = Duration::from_millis;
    for (ttl_s, min_interval, max_interval) in
        [(1, millis(50), millis(10_000)), (0, millis(1_000), millis(10_000)), (86_400, millis(0), millis(1_000))]
    {
        let dns = DnsServer::start(ttl_s).await;
        dns.addresses(&["127.0.0.1"]);
        let dns_settings =
            DnsSettings { servers: vec![dns.address], min_interval, max_interval, ..DnsSettings::default() };
        let settings = Settings { dns: dns_settings, ..Settings::default() };
        let _discovery = watch_with(ADDRESSES.parse().unwrap(), &settings).await.unwrap();
        sleep(millis(3_500)).await;
        assert!((3..=5).contains(&dns.asked()), "ttl {ttl_s} s: asked {} times", dns.asked());
    }
}

#[tokio::test]
async fn last_view_stays_while_no_answer_has_a_node() {
    let faults: [fn(&DnsServer); 5] = [
        |dns| dns.answers(ResponseCode::ServFail),
        |dns| dns.answers(ResponseCode::Refused),
        |dns| dns.answers(ResponseCode::NXDomain),
        |dns| dns.addresses(&[]),
        DnsServer::falls_silent,
    ];
    for fault in faults {
        let logs = Logs::collect();
        let (dns, discovery) = two_nodes(0).await;
        fault(&dns);
        eventually("age", || discovery.age() > 2 * HOLD).await;
        eventually("warning", || !logs.with("keeps the last view").is_empty()).await;
        sleep(2 * HOLD).await;
        assert_eq!(shown(&discovery), TWO_NODES);
        assert_eq!(logs.with("WARN").len(), 1, "{:?}", logs.with("WARN"));

        dns.answers(ResponseCode::NoError);
        dns.addresses(&["127.0.0.3"]);
        becomes(&discovery, "127.0.0.3=127.0.0.3:7900").await;
        assert!(discovery.age() < HOLD, "{:?}", discovery.age());
        assert_eq!(logs.with("works again").len(), 1);
    }
}

#[tokio::test]
async fn first_answer_is_awaited_when_no_server_runs_at_start() {
    let dns = DnsServer::start(0).await;
    dns.falls_silent();
    dns.addresses(&["127.0.0.1"]);
    let discovery = follow(&dns, ADDRESSES).await;
    assert!(timeout(HOLD, discovery.first_reading()).await.is_err());
    dns.answers(ResponseCode::NoError);
    timeout(TIMEOUT, discovery.first_reading()).await.expect("no reading");
    becomes(&discovery, "127.0.0.1=127.0.0.1:7900").await;
}

#[tokio::test]
async fn dns_server_comes_from_the_system() {
    let discovery = watch("dns:localhost:7900".parse().unwrap()).await.unwrap();
    becomes(&discovery, "127.0.0.1=127.0.0.1:7900").await;
}

const TWO_NODES: &str = "127.0.0.1=127.0.0.1:7900 127.0.0.2=127.0.0.2:7900";

async fn two_nodes(ttl: u32) -> (DnsServer, Discovery) {
    let dns = DnsServer::start(ttl).await;
    dns.addresses(&["127.0.0.2", "127.0.0.1"]);
    let discovery = follow(&dns, ADDRESSES).await;
    becomes(&discovery, TWO_NODES).await;
    (dns, discovery)
}

async fn follow(dns: &DnsServer, source: &str) -> Discovery {
    let millis = Duration::from_millis;
    let asking = DnsSettings {
        servers: vec![dns.address],
        answer_timeout: millis(400),
        min_interval: millis(50),
        max_interval: millis(10_000),
    };
    let settings = Settings { hold: HOLD, dns: asking, ..Settings::default() };
    watch_with(source.parse().unwrap(), &settings).await.unwrap()
}

async fn becomes(discovery: &Discovery, members: &str) {
    eventually(members, || shown(discovery) == members).await;
}

fn shown(discovery: &Discovery) -> String {
    let view = discovery.subscribe().borrow().clone();
    let members = view.members().iter().map(|member| format!("{}={}", member.id, member.address));
    members.collect::<Vec<_>>().join(" ")
}
