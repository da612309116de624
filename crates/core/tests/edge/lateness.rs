//! Frames of a node that arrive late: the edge writes no message whose TTL is over by then.

use std::time::Duration;

use signaling_core::edge::TrunkError;
use signaling_wire::Elapsed;
use signaling_wire::trunk::{ToEdge, ToNode};

use crate::stage::{Edge, down, message};

const MS: Duration = Duration::from_millis(1);

/// Returns the time of frames that were sent at the start.
fn at_start() -> ToEdge<'static> {
    ToEdge::Clock { elapsed: Elapsed::default(), counter: 1 }
}

#[test]
fn message_is_skipped_if_its_ttl_ended_on_the_way() {
    let (mut edge, link, client) = Edge::with_client(false);
    let start = edge.now;
    let clock = |ms: u32| ToEdge::Clock { elapsed: Elapsed::between(start, start + ms * MS), counter: 1 };
    edge.hear(link, &[clock(0), message(1, 1)]);
    // The TTL of each is 1 s.
    edge.now = start + Duration::from_secs(2);
    edge.hear(link, &[clock(1_000), down(0, 2, 2, b"{late}"), clock(1_010), down(0, 3, 3, b"{timely}")]);
    assert!(!edge.output(client).contains("{late}") && edge.output(client).contains("{timely}"));
}

#[test]
fn frames_over_5_s_late_are_refused() {
    let (mut edge, link, client) = Edge::with_client(false);
    let mut refused = Vec::new();
    edge.hear(link, &[at_start()]);
    edge.now += Duration::from_secs(5);
    edge.hear(link, &[at_start()]);
    edge.now += 10 * MS;
    [at_start(), message(1, 1)].iter().for_each(|frame| frame.append(&mut refused));
    assert!(matches!(edge.core.link_frames(edge.now, link, &refused), Err(TrunkError::TooLate(_))));
    assert_eq!(edge.output(client), "");
}

#[test]
fn silent_link_carries_its_time_and_counter_every_500_ms() {
    let (mut edge, link, _) = Edge::with_client(false);
    edge.hear(link, &[ToEdge::Clock { elapsed: Elapsed::default(), counter: 7_000_000 }]);
    let times = (0..4).filter_map(|_| {
        edge.pass(Duration::from_millis(500));
        match ToNode::take(&mut &edge.core.take_batch(link)[..]) {
            Ok(ToNode::Clock { elapsed, counter }) => Some((elapsed.as_duration().as_millis(), counter)),
            _ => None,
        }
    });
    let expected = [(500, 7_500_000), (1_000, 8_000_000), (1_500, 8_500_000), (2_000, 9_000_000)];
    assert_eq!(times.collect::<Vec<_>>(), expected);
}

#[test]
fn message_sent_again_has_its_present_ttl_and_time() {
    let (mut edge, link, client) = Edge::with_client(false);
    let sent = |edge: &mut Edge, link| {
        let batch = edge.core.take_batch(link);
        let (mut rest, mut sent) = (&batch[..], Vec::new());
        while !rest.is_empty() {
            match ToNode::take(&mut rest).unwrap() {
                ToNode::Clock { elapsed, .. } => sent.push(("clock", elapsed.as_duration().as_secs())),
                ToNode::Up { ttl, .. } => sent.push(("ttl", ttl.as_duration().as_secs())),
                _ => {}
            }
        }
        sent
    };
    edge.now += Duration::from_secs(1);
    edge.say(client, r#"{"type":"signal","to":"ben","data":""}"#);
    assert_eq!(sent(&mut edge, link), [("clock", 1), ("ttl", 20)]);
    edge.core.link_down(link);
    let next = edge.core.link_up(edge.now, edge.now + Duration::from_secs(2));
    edge.now += Duration::from_secs(3);
    edge.core.attach(edge.now, client, next);
    assert_eq!(sent(&mut edge, next), [("clock", 3), ("ttl", 17)]);
}
