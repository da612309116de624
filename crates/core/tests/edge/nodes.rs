//! Reports of nodes about themselves, and their requests about the edge's server.

use signaling_core::edge::NodeReport;
use signaling_wire::trunk::ToEdge;

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
