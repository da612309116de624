//! Reports of nodes about themselves, and their requests about the edge's server.

use signaling_core::edge::NodeReport;
use signaling_wire::trunk::{ToEdge, ToNode};
use signaling_wire::{Elapsed, Rank};

use crate::stage::Edge;

#[test]
fn all_reports_and_requests_of_a_run_are_returned() {
    use NodeReport::{DrainRequest, Draining, Serving, StatusRequest};
    let (mut edge, link, _) = Edge::with_client(false);
    let frames = [ToEdge::Draining, ToEdge::StatusRequest, ToEdge::StatusRequest, ToEdge::SetDrained { drained: true }];
    assert_eq!(edge.hear(link, &frames), [Draining, StatusRequest, DrainRequest { drained: true }]);
    assert_eq!(edge.hear(link, &[ToEdge::Serving]), [Serving]);
}

#[test]
fn status_of_at_most_64_kib_is_sent() {
    let (mut edge, link, _) = Edge::with_client(false);
    edge.said(link);
    edge.core.send_status(link, &vec![b'x'; 64 * 1024 + 1]);
    assert!(edge.said(link).is_empty());
    edge.core.send_status(link, b"{}");
    assert_eq!(edge.said(link), ["status {}"]);
}

#[test]
fn next_node_gets_the_rank_with_what_the_counter_lacked() {
    let (mut edge, link, client) = Edge::with_client(false);
    // Another server's counter is 1 ms ahead.
    edge.hear(link, &[ToEdge::Clock { elapsed: Elapsed::default(), counter: 1_001 }]);
    let next = edge.core.link_up(edge.now, edge.now);
    edge.core.link_down(link);
    edge.core.attach(edge.now, client, next);
    let batch = edge.core.take_batch(next);
    let mut rest = &batch[..];
    let mut frames = std::iter::from_fn(|| ToNode::take(&mut rest).ok());
    let rank = frames.find_map(|frame| if let ToNode::Attach(attach) = frame { Some(attach.rank) } else { None });
    assert_eq!(rank, Some(Rank(1_001)));
}
