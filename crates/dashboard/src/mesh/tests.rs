#![allow(clippy::unwrap_used)]

use super::*;
use crate::status::{EdgeFigures, Figures, Process, Totals, ViewStatus, ViewedNode, What};

const SECOND: Duration = Duration::from_secs(1);

fn id(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

/// A node that serves, in a view of these.
fn node(name: &str, view: &[&str]) -> Status {
    let viewed = |name: &&str| ViewedNode { id: id(name), address: format!("{name}:7900"), draining: false };
    let nodes = view.iter().map(viewed).collect();
    let view = ViewStatus { hash: view.join(","), nodes, ..ViewStatus::default() };
    Status { started_ms: 1, view, ..Status::nothing_of(id(name), Role::Node) }
}

fn balancer(name: &str) -> Status {
    Status { started_ms: 1, ..Status::nothing_of(id(name), Role::Balancer) }
}

fn with_totals(status: Status, totals: Totals) -> Status {
    Status { figures: Figures { totals, ..status.figures.clone() }, ..status }
}

fn with_edge(status: Status, name: &str, clients: u64, messages: u64) -> Status {
    let edge = EdgeFigures { id: id(name), address: Some("10.0.0.9:7900".into()), clients, messages };
    Status { figures: Figures { edges: vec![edge], ..status.figures.clone() }, ..status }
}

/// Node `a` asks the others, once a second.
struct Watch {
    mesh: Mesh,
    at: Instant,
    at_ms: u64,
}

impl Watch {
    fn new() -> Self {
        Self { mesh: Mesh::default(), at: Instant::now(), at_ms: 1_000_000 }
    }

    fn targets(&mut self, own: &Status) -> Vec<String> {
        self.mesh.targets(self.at, own).into_iter().map(|target| format!("{}={}", target.id, target.address)).collect()
    }

    /// A second later.
    fn round(&mut self, own: &Status, answers: &[(&str, Result<Status, Failure>)]) -> Snapshot {
        self.at += SECOND;
        self.at_ms += 1_000;
        self.mesh.targets(self.at, own);
        let answers = answers.iter().map(|(name, answer)| (id(name), answer.clone())).collect();
        self.mesh.take(Round { at: self.at, at_ms: self.at_ms, own: own.clone(), answers })
    }
}

fn server<'a>(snapshot: &'a Snapshot, name: &str) -> &'a Server {
    snapshot.servers.iter().find(|server| server.id.as_str() == name).unwrap()
}

fn told(snapshot: &Snapshot) -> Vec<What> {
    snapshot.stories.iter().map(|story| story.what.clone()).collect()
}

#[test]
fn nodes_are_asked_by_the_view_and_balancers_by_what_nodes_tell() {
    let mut watch = Watch::new();
    let own = node("a", &["a", "b"]);
    assert_eq!(watch.targets(&own), ["b=b:7900"]);
    watch.round(&own, &[("b", Ok(with_edge(node("b", &["a", "b"]), "lb", 1, 1)))]);
    assert_eq!(watch.targets(&own), ["b=b:7900", "lb=10.0.0.9:7900"]);
    // One that has left the view is asked on as long as it answers, or was heard of lately.
    let alone = node("a", &["a"]);
    assert_eq!(watch.targets(&alone), ["b=b:7900", "lb=10.0.0.9:7900"]);
    for _ in 0..31 {
        watch.round(&alone, &[("b", Err(Failure::Unreachable)), ("lb", Err(Failure::Unreachable))]);
    }
    assert_eq!(watch.targets(&alone), [""; 0]);
}

#[test]
fn rates_are_what_counts_have_grown_by_a_second() {
    let mut watch = Watch::new();
    let at = |messages, delivered, cpu_us| {
        let totals = Totals { messages, delivered, ..Totals::default() };
        Status { process: Process { cpu_us, resident_bytes: 7 }, ..with_totals(node("a", &["a", "b"]), totals) }
    };
    let b = |messages| with_totals(node("b", &["a", "b"]), Totals { messages, ..Totals::default() });
    let first = watch.round(&at(100, 90, 0), &[("b", Ok(b(5)))]);
    assert_eq!((first.mesh.messages_per_s, server(&first, "a").cpu), (None, None));
    let second = watch.round(&at(150, 130, 250_000), &[("b", Ok(b(15)))]);
    assert_eq!((second.mesh.messages_per_s, second.mesh.delivered_per_s), (Some(60.0), Some(40.0)));
    assert_eq!((server(&second, "b").messages_per_s, server(&second, "a").cpu), (Some(10.0), Some(0.25)));
}

#[test]
fn a_restart_begins_the_counts_anew_and_is_told() {
    let mut watch = Watch::new();
    let own = node("a", &["a", "b"]);
    let b = |started_ms, messages| {
        let status = with_totals(node("b", &["a", "b"]), Totals { messages, ..Totals::default() });
        Ok(Status { started_ms, ..status })
    };
    watch.round(&own, &[("b", b(1, 1_000))]);
    let after = watch.round(&own, &[("b", b(2, 3))]);
    assert_eq!(server(&after, "b").messages_per_s, None);
    assert_eq!(told(&after), [What::Restarted { node: id("b") }]);
    let later = watch.round(&own, &[("b", b(2, 10))]);
    assert_eq!(server(&later, "b").messages_per_s, Some(7.0));
}

#[test]
fn who_does_not_answer_is_named_with_how_long_and_is_gone_once_nobody_names_it() {
    let mut watch = Watch::new();
    let own = node("a", &["a", "b"]);
    watch.round(&own, &[("b", Ok(node("b", &["a", "b"])))]);
    let silent = watch.round(&own, &[("b", Err(Failure::Unreachable))]);
    let why = "cannot be connected to".to_owned();
    assert_eq!(server(&silent, "b").state, State::Silent { silent_ms: 1_000, why });
    assert_eq!(told(&silent), [What::Silent { node: id("b") }]);
    let gone = watch.round(&node("a", &["a"]), &[("b", Err(Failure::Unreachable))]);
    assert_eq!(server(&gone, "b").state, State::Gone { silent_ms: 2_000 });
    let back = watch.round(&own, &[("b", Ok(node("b", &["a", "b"])))]);
    assert_eq!(server(&back, "b").state, State::Serving);
    assert_eq!(told(&back), [What::Silent { node: id("b") }, What::Answers { node: id("b") }]);
}

#[test]
fn one_late_answer_is_shown_and_not_told() {
    let mut watch = Watch::new();
    let own = node("a", &["a", "b"]);
    watch.round(&own, &[("b", Ok(node("b", &["a", "b"])))]);
    let late = watch.round(&own, &[("b", Err(Failure::Late))]);
    assert!(matches!(server(&late, "b").state, State::Silent { silent_ms: 1_000, .. }));
    assert_eq!(told(&late), []);
    assert_eq!(told(&watch.round(&own, &[("b", Err(Failure::Late))])), [What::Silent { node: id("b") }]);
}

#[test]
fn a_node_that_drains_says_so_itself_or_by_the_view_and_its_end_is_no_failure() {
    let mut watch = Watch::new();
    let own = node("a", &["a", "b", "c"]);
    let drains = || Ok(Status { obstacle: Some("draining".into()), ..node("b", &["a", "b", "c"]) });
    let mut by_view = own.clone();
    by_view.view.nodes[2].draining = true;
    let snapshot = watch.round(&by_view, &[("b", drains()), ("c", Ok(node("c", &["a", "b", "c"])))]);
    assert_eq!(server(&snapshot, "b").state, State::Draining);
    assert_eq!(server(&snapshot, "c").state, State::Draining);
    let end = watch.round(&own, &[("b", Err(Failure::Unreachable)), ("c", Ok(node("c", &["a", "b", "c"])))]);
    assert_eq!(told(&end), [What::Stopped { node: id("b") }]);
}

#[test]
fn a_balancer_that_cannot_be_asked_is_shown_by_what_nodes_tell() {
    let mut watch = Watch::new();
    let own = |messages| with_edge(node("a", &["a", "b"]), "lb", 10, messages);
    let b = |messages| Ok(with_edge(node("b", &["a", "b"]), "lb", 5, messages));
    watch.round(&own(0), &[("b", b(100))]);
    let second = watch.round(&own(50), &[("b", b(130)), ("lb", Err(Failure::Late))]);
    let lb = server(&second, "lb");
    assert!(matches!(lb.state, State::Indirect { .. }), "{lb:?}");
    assert_eq!((lb.clients, lb.messages_per_s), (15, Some(80.0)));
    assert_eq!(told(&watch.round(&own(50), &[("b", b(130)), ("lb", Err(Failure::Late))])), [], "there may be no way");
    let answered = watch.round(&own(50), &[("b", b(130)), ("lb", Ok(balancer("lb")))]);
    assert_eq!(server(&answered, "lb").state, State::Serving);
}

#[test]
fn another_server_at_its_address_is_not_taken_for_it() {
    let mut watch = Watch::new();
    let snapshot = watch.round(&node("a", &["a", "b"]), &[("b", Ok(node("c", &["a", "b"])))]);
    assert!(matches!(&server(&snapshot, "b").state, State::Silent { why, .. } if why == "c answers there"));
    assert!(snapshot.servers.iter().all(|server| server.id.as_str() != "c"));
}

#[test]
fn suspicion_and_views_that_differ_are_shown_where_they_are() {
    let mut watch = Watch::new();
    let own = Status { suspects: vec![id("b")], ..node("a", &["a", "b"]) };
    let b = || Ok(node("b", &["b"]));
    watch.round(&own, &[("b", b())]);
    let snapshot = watch.round(&own, &[("b", b())]);
    assert_eq!(server(&snapshot, "b").suspected_by, [id("a")]);
    assert_eq!(server(&snapshot, "b").other_view_ms, Some(1_000));
    assert_eq!((server(&snapshot, "a").other_view_ms, server(&snapshot, "a").suspected_by.len()), (None, 0));
}

#[test]
fn the_p99_is_that_of_all_edges_together() {
    let mut watch = Watch::new();
    let own = |fast: u64| {
        let status = with_edge(node("a", &["a"]), "lb", 1, 1);
        Status { figures: Figures { delays: vec![(100, fast)], ..status.figures.clone() }, ..status }
    };
    let lb = |slow: u64| {
        Ok(Status { figures: Figures { delays: vec![(9_000, slow)], ..Figures::default() }, ..balancer("lb") })
    };
    watch.round(&own(0), &[]);
    watch.round(&own(0), &[("lb", lb(0))]);
    let snapshot = watch.round(&own(98), &[("lb", lb(2))]);
    assert_eq!((snapshot.mesh.p99_us, server(&snapshot, "a").p99_us), (Some(9_000), Some(100)));
    let even = watch.round(&own(1_000), &[("lb", lb(3))]);
    assert_eq!(even.mesh.p99_us, Some(100));
}

#[test]
fn nodes_stand_before_balancers_each_by_name() {
    let mut watch = Watch::new();
    let own = with_edge(node("b", &["a", "b"]), "a-balancer", 1, 1);
    watch.round(&own, &[]);
    let snapshot = watch.round(&own, &[]);
    let names: Vec<_> = snapshot.servers.iter().map(|server| server.id.as_str()).collect();
    assert_eq!(names, ["a", "b", "a-balancer"]);
}
