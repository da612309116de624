//! Frames of trunks, in both directions.

use signaling_protocol::DecodeError;
use signaling_protocol::trunk::{ToEdge, ToNode};

/// The first byte says which end reads the rest.
///
/// # Panics
/// If a frame that was read is written and read as another, or takes no bytes.
pub fn trunks(data: &[u8]) {
    match data.split_first() {
        Some((0, bytes)) => run(bytes, ToNode::take, ToNode::append),
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
            assert_eq!(bytes.len(), before.len(), "what is refused stays as it was");
            return;
        };
        assert!(bytes.len() < before.len(), "a frame has at least one byte");
        let mut written = Vec::new();
        append(&frame, &mut written);
        // Numbers may have been written longer than they need.
        assert!(written.len() <= before.len() - bytes.len(), "{frame:?}");
    }
}
