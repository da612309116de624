//! Server frames, unmasked and unfragmented, appended to a buffer of the caller. The edge calls it.

use signaling_protocol::CloseCode;

const LAST: u8 = 0x80;
const TEXT: u8 = LAST | 1;
const BINARY: u8 = LAST | 2;
const CLOSE: u8 = LAST | 8;
const PING: u8 = LAST | 9;
const PONG: u8 = LAST | 10;

/// Maximum bytes of a control frame's payload.
const MAX_CONTROL: usize = 125;

/// Appends a text message. The caller guarantees valid UTF-8.
pub fn text(out: &mut Vec<u8>, payload: &[u8]) {
    message(out, TEXT, payload);
}

/// Appends a text message of several parts as one frame, without a copy in between.
pub fn text_parts(out: &mut Vec<u8>, parts: &[&[u8]]) {
    header(out, TEXT, parts.iter().map(|part| part.len()).sum());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Appends a binary message.
pub fn binary(out: &mut Vec<u8>, payload: &[u8]) {
    message(out, BINARY, payload);
}

/// Appends a ping without a payload.
pub fn ping(out: &mut Vec<u8>) {
    message(out, PING, b"");
}

/// Appends a pong with at most 125 bytes of the payload.
pub fn pong(out: &mut Vec<u8>, payload: &[u8]) {
    message(out, PONG, &payload[..payload.len().min(MAX_CONTROL)]);
}

/// Appends a close frame. The reason is cut to 123 bytes between two characters. The frame has
/// neither code nor reason if the code is [`CloseCode::NO_CODE`].
pub fn close(out: &mut Vec<u8>, code: u16, reason: &str) {
    if code == CloseCode::NO_CODE.0 {
        return header(out, CLOSE, 0);
    }
    let code = code.to_be_bytes();
    let reason = &reason[..reason.floor_char_boundary(MAX_CONTROL - code.len())];
    header(out, CLOSE, code.len() + reason.len());
    out.extend_from_slice(&code);
    out.extend_from_slice(reason.as_bytes());
}

/// Returns the size in bytes of the unmasked frame at the start of `bytes`, header included, even
/// if its payload is incomplete. `None`: the header is incomplete.
#[must_use]
pub fn frame_len(bytes: &[u8]) -> Option<usize> {
    let short = usize::from(*bytes.get(1)?);
    let (header, payload): (usize, usize) = match short {
        126 => (4, usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
        127 => (10, usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?),
        _ => (2, short),
    };
    header.checked_add(payload)
}

fn message(out: &mut Vec<u8>, first: u8, payload: &[u8]) {
    header(out, first, payload.len());
    out.extend_from_slice(payload);
}

/// Writes the header and reserves space for the payload.
fn header(out: &mut Vec<u8>, first: u8, length: usize) {
    const LONGEST_HEADER: usize = 10;
    out.reserve(LONGEST_HEADER + length);
    if let Some(short) = u8::try_from(length).ok().filter(|short| *short <= 125) {
        out.extend_from_slice(&[first, short]);
    } else if let Ok(medium) = u16::try_from(length) {
        let [a, b] = medium.to_be_bytes();
        out.extend_from_slice(&[first, 126, a, b]);
    } else {
        out.extend_from_slice(&[first, 127]);
        out.extend_from_slice(&(length as u64).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    #[test]
    fn length_has_its_shortest_form_and_is_read_again() {
        for (length, expected) in [
            (0, vec![0x81, 0]),
            (125, vec![0x81, 125]),
            (126, vec![0x81, 126, 0, 126]),
            (65_535, vec![0x81, 126, 0xff, 0xff]),
            (65_536, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let payload = vec![b'x'; length];
            let frame = encoded(|out| text(out, &payload));
            assert_eq!(frame, [expected, payload].concat(), "length {length}");
            assert_eq!((frame_len(&frame), frame_len(&frame[..1])), (Some(frame.len()), None), "length {length}");
        }
    }

    #[test]
    fn frames_are_appended_with_their_opcodes() {
        let mut out = Vec::new();
        text(&mut out, b"t");
        binary(&mut out, b"b");
        ping(&mut out);
        pong(&mut out, b"o");
        close(&mut out, 4003, "c");
        assert_eq!(out, b"\x81\x01t\x82\x01b\x89\x00\x8a\x01o\x88\x03\x0f\xa3c");
    }

    #[test]
    fn parts_make_one_frame() {
        let parts: [&[u8]; 4] = [b"{\"from\":\"", b"anna", b"\"", b"}"];
        assert_eq!(encoded(|out| text_parts(out, &parts)), encoded(|out| text(out, &parts.concat())));
    }

    #[test]
    fn long_close_reason_is_cut_between_characters() {
        let reason = format!("{}é", "x".repeat(122));
        let frame = encoded(|out| close(out, 1008, &reason));
        assert_eq!(frame[1], 124);
        assert_eq!(&frame[4..], "x".repeat(122).as_bytes());
    }

    #[test]
    fn control_frame_has_at_most_125_bytes() {
        assert_eq!([126, 200].map(|bytes| encoded(|out| pong(out, &vec![0; bytes])).len()), [127; 2]);
    }
}
