//! WebSocket frames of clients.

use signaling_core::ws::{Decoder, Event, Limits, Violation};

const LIMITS: Limits = Limits { max_message_bytes: 1024, max_fragments: 8, binary: true };

/// Decodes the bytes after the first one, whole and in pieces of 1 to 32 bytes. The first byte
/// selects the size of all pieces. Ignores empty `data`. Messages may have 1 KiB and 8 fragments.
///
/// # Panics
/// If the pieces give other events or another violation than the whole. If an event is invalid or
/// too long, or follows a violation in its piece. If the decoder holds more than 4 KiB.
pub fn frames(data: &[u8]) {
    let Some((&cut, bytes)) = data.split_first() else { return };
    let whole = read(bytes, bytes.len().max(1));
    assert_eq!(read(bytes, usize::from(cut % 32) + 1), whole, "cut into pieces of {}", cut % 32 + 1);
}

/// Returns the events, as text, and the violation.
fn read(bytes: &[u8], piece: usize) -> (Vec<String>, Option<Violation>) {
    let (mut decoder, mut events) = (Decoder::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        let mut piece = piece.to_vec();
        let mut input = decoder.feed(&mut piece, LIMITS);
        loop {
            match input.next() {
                Ok(None) => break,
                Ok(Some(event)) => {
                    check(&event);
                    events.push(format!("{event:?}"));
                }
                Err(violation) => {
                    assert!(input.next() == Ok(None), "nothing is read behind a violation");
                    return (events, Some(violation));
                }
            }
        }
        drop(input);
        assert!(decoder.held() <= 4 * LIMITS.max_message_bytes as usize, "{} bytes are kept", decoder.held());
    }
    (events, None)
}

fn check(event: &Event<'_>) {
    match event {
        Event::Text(text) => {
            assert!(text.len() <= LIMITS.max_message_bytes as usize);
            assert!(std::str::from_utf8(text).is_ok(), "a text that is no UTF-8");
        }
        Event::Binary(bytes) => assert!(bytes.len() <= LIMITS.max_message_bytes as usize),
        Event::Ping(payload) | Event::Pong(payload) => assert!(payload.len() <= 125),
        Event::Close(code, reason) => {
            assert!(reason.len() <= 123);
            assert!(code.is_none_or(|code| (1000..5000).contains(&code) && ![1004, 1005, 1006, 1015].contains(&code)));
        }
    }
}
