//! Frames of trunks, in both directions, and the grants in them.

use signaling_wire::DecodeError;
use signaling_wire::grant::Grant;
use signaling_wire::trunk::{ToEdge, ToNode};

/// Parses the bytes after the first one: 0 selects frames to a node, 2 a grant, others frames to an
/// edge.
///
/// # Panics
/// If a parsed frame has no bytes or is written in more of them, or a rejected one is consumed. If
/// a written grant is read differently, or its patterns admit wrong names.
pub fn trunks(data: &[u8]) {
    match data.split_first() {
        Some((0, bytes)) => run(bytes, ToNode::take, ToNode::append),
        Some((2, bytes)) => grant(bytes),
        Some((_, bytes)) => run(bytes, ToEdge::take, ToEdge::append),
        None => {}
    }
}

fn run<'a, T: PartialEq + std::fmt::Debug>(
    mut bytes: &'a [u8],
    take: impl Fn(&mut &'a [u8]) -> Result<T, DecodeError>,
    append: impl Fn(&T, &mut Vec<u8>),
) {
    while !bytes.is_empty() {
        let before = bytes;
        let Ok(frame) = take(&mut bytes) else {
            assert_eq!(bytes.len(), before.len(), "a rejected frame is not consumed");
            return;
        };
        assert!(bytes.len() < before.len(), "a frame has at least one byte");
        let mut written = Vec::new();
        append(&frame, &mut written);
        // Numbers in the input may be longer than necessary.
        assert!(written.len() <= before.len() - bytes.len(), "{frame:?}");
    }
}

fn grant(bytes: &[u8]) {
    let Ok(grant) = Grant::read(bytes) else { return };
    assert!(Grant::read(&grant.to_bytes()).is_ok_and(|again| again == grant), "{grant:?}");
    for pattern in grant.rooms.iter().flatten() {
        let is_literal = !pattern.pattern.contains('*');
        assert!(grant.admits(&pattern.pattern).is_some(), "a pattern fits itself: {grant:?}");
        let longer = format!("{}x", pattern.pattern);
        let alone = Grant { rooms: Some(vec![pattern.clone()]), ..Grant::default() };
        assert!(!is_literal || alone.admits(&longer).is_none(), "a name without stars fits itself alone: {pattern:?}");
    }
}
