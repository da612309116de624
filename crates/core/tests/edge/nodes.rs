//! Reports of nodes about themselves, and their requests about the edge's server.

use signaling_core::edge::NodeReport;
use signaling_wire::trunk::ToEdge;

use crate::stage::Edge;

#[test]
fn drain_is_reported_beside_a_request_for_the_status() {
    let (mut edge, link, _) = Edge::with_client(false);
    for (frames, report) in [
        (&[ToEdge::StatusRequest][..], NodeReport::StatusRequest),
        (&[ToEdge::Draining, ToEdge::StatusRequest], NodeReport::Draining),
        (&[ToEdge::StatusRequest, ToEdge::Serving], NodeReport::Serving),
    ] {
        assert_eq!(edge.hear(link, frames), Some(report));
    }
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
