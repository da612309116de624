//! WebSocket frames as a client sees them.

use signaling_core::ws::encode;

/// A frame from a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Text(Vec<u8>),
    Ping,
    /// A pong or a close.
    Other,
}

/// Removes one whole frame from the front of `bytes`. Returns `None` if it is incomplete.
pub(crate) fn take(bytes: &mut Vec<u8>) -> Option<Frame> {
    let length = encode::frame_len(bytes).filter(|length| *length <= bytes.len())?;
    let frame: Vec<u8> = bytes.drain(..length).collect();
    let header = match frame[1] {
        126 => 4,
        127 => 10,
        _ => 2,
    };
    Some(match frame[0] & 0x0f {
        1 => Frame::Text(frame[header..].to_vec()),
        9 => Frame::Ping,
        _ => Frame::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_whole_or_not_at_all() {
        for length in [5, 300, 70_000] {
            let mut bytes = Vec::new();
            let text = vec![b'x'; length];
            encode::ping(&mut bytes, b"");
            encode::text(&mut bytes, &text);
            let last = bytes.pop();
            assert_eq!(take(&mut bytes), Some(Frame::Ping));
            assert_eq!(take(&mut bytes), None);
            bytes.extend(last);
            assert_eq!(take(&mut bytes), Some(Frame::Text(text)));
            assert!(bytes.is_empty());
        }
    }
}
