//! WebSocket frames as a client sees them.

/// What a server says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Text(Vec<u8>),
    Ping,
    /// A pong or a close.
    Other,
}

/// Takes one whole frame from the front of `bytes`, if it has come.
pub(crate) fn take(bytes: &mut Vec<u8>) -> Option<Frame> {
    let (first, short) = (*bytes.first()?, *bytes.get(1)?);
    let (header, length) = match short {
        126 => (4, usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]))),
        127 => {
            let long: [u8; 8] = bytes.get(2..10)?.try_into().ok()?;
            (10, usize::try_from(u64::from_be_bytes(long)).ok()?)
        }
        short => (2, usize::from(short)),
    };
    let payload = bytes.get(header..header + length)?.to_vec();
    bytes.drain(..header + length);
    Some(match first & 0x0f {
        1 => Frame::Text(payload),
        9 => Frame::Ping,
        _ => Frame::Other,
    })
}

#[cfg(test)]
mod tests {
    use signaling_core::ws::encode;

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
