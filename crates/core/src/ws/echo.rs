use signaling_protocol::CloseCode;

use super::{Decoder, Event, Limits, encode};

/// Appends an echo server's answers to `bytes` to `out`: the messages, a pong for a ping, and a
/// close for a close or violation, with its code. Returns `true` if the last one is a close.
pub fn echo(decoder: &mut Decoder, bytes: &mut [u8], limits: Limits, out: &mut Vec<u8>) -> bool {
    let mut input = decoder.feed(bytes, limits);
    loop {
        match input.next() {
            Ok(None) => return false,
            Ok(Some(Event::Text(text))) => encode::text(out, text),
            Ok(Some(Event::Binary(bytes))) => encode::binary(out, bytes),
            Ok(Some(Event::Ping(payload))) => encode::pong(out, payload),
            Ok(Some(Event::Pong(_))) => {}
            Ok(Some(Event::Close(code, _))) => {
                encode::close(out, code.unwrap_or(CloseCode::NO_CODE.0), "");
                return true;
            }
            Err(violation) => {
                encode::close(out, violation.code, violation.reason);
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Echoes frames of a client. The mask is zero, so the payloads stay as they are.
    fn echoed(frames: &[(u8, &[u8])]) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        for (opcode, payload) in frames {
            bytes.extend([0x80 | opcode, 0x80 | payload.len() as u8, 0, 0, 0, 0]);
            bytes.extend_from_slice(payload);
        }
        let mut out = Vec::new();
        let is_last = echo(&mut Decoder::default(), &mut bytes, Limits::default(), &mut out);
        (out, is_last)
    }

    #[test]
    fn messages_and_pings_are_echoed() {
        assert_eq!(echoed(&[(1, b"hi"), (9, b"p"), (10, b"q")]), (b"\x81\x02hi\x8a\x01p".to_vec(), false));
    }

    #[test]
    fn close_is_echoed_and_ends_the_input() {
        assert_eq!(echoed(&[(8, b"\x0f\xa0"), (1, b"hi")]), (b"\x88\x02\x0f\xa0".to_vec(), true));
    }

    #[test]
    fn close_without_a_code_is_answered_without_one() {
        assert_eq!(echoed(&[(8, b"")]), (b"\x88\x00".to_vec(), true));
    }

    #[test]
    fn violation_is_answered_with_its_code() {
        let (out, is_last) = echoed(&[(3, b"")]);

        assert_eq!((out[0], &out[2..4], is_last), (0x88, &1002_u16.to_be_bytes()[..], true));
    }
}
