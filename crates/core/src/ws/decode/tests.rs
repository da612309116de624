use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

// First bytes: FIN and opcode.
const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;
const TEXT_PART: u8 = 0x01;
const MIDDLE_PART: u8 = 0x00;
const END_PART: u8 = 0x80;

/// An event that owns its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Heard {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
    Violation(u16),
}

#[test]
fn idle_decoder_is_small_and_holds_nothing() {
    assert!(size_of::<Decoder>() <= 32);
    let mut decoder = Decoder::default();
    hear(&mut decoder, &frame(TEXT, b"hello"), LIMITS);
    assert!(!decoder.unfinished());
    assert_eq!(decoder.held(), 0);
}

#[test]
fn whole_frames_are_decoded_in_order() {
    let stream = [
        frame(TEXT, "grüße".as_bytes()),
        frame(PING, b"a"),
        frame(PONG, b""),
        frame(TEXT, b""),
        frame(CLOSE, b"\x03\xe8bye"),
    ];
    let expected = [
        Heard::Text("grüße".into()),
        Heard::Ping(b"a".into()),
        Heard::Pong(b"".into()),
        Heard::Text(b"".into()),
        Heard::Close(Some(1000), "bye".into()),
    ];
    assert_eq!(heard(&stream.concat()), expected);
}

#[test]
fn fragments_are_joined_around_control_frames() {
    let stream = [
        frame(TEXT_PART, b"one "),
        frame(PING, b"p"),
        frame(MIDDLE_PART, b""),
        frame(MIDDLE_PART, b"two "),
        frame(END_PART, b"three"),
        frame(TEXT, b"next"),
    ];
    let expected = [Heard::Ping(b"p".into()), Heard::Text(b"one two three".into()), Heard::Text(b"next".into())];
    assert_eq!(heard(&stream.concat()), expected);
}

#[test]
fn binary_message_needs_its_limit_enabled() {
    let stream = frame(BINARY, &[0xff, 0]);
    assert_eq!(heard(&stream), [Heard::Violation(1003)]);
    let limits = Limits { binary: true, ..LIMITS };
    assert_eq!(hear(&mut Decoder::default(), &stream, limits), [Heard::Binary(vec![0xff, 0])]);
}

#[test]
fn broken_framing_is_1002() {
    let unmasked = b"\x81\x02hi".to_vec();
    assert_eq!(heard(&unmasked), [Heard::Violation(1002)], "unmasked");
    for reserved in [0x10, 0x20, 0x40, 0x70] {
        assert_eq!(heard(&frame(TEXT | reserved, b"")), [Heard::Violation(1002)], "RSV {reserved:x}");
    }
    for opcode in (3..=7).chain(11..=15) {
        assert_eq!(heard(&frame(0x80 | opcode, b"")), [Heard::Violation(1002)], "opcode {opcode}");
    }
    for control in [CLOSE, PING, PONG] {
        assert_eq!(heard(&frame(control, &[b'x'; 126])), [Heard::Violation(1002)], "126 bytes in {control:x}");
        assert_eq!(heard(&frame(control & 0x0f, b"")), [Heard::Violation(1002)], "fragmented {control:x}");
    }
    for continuation in [MIDDLE_PART, END_PART] {
        assert_eq!(heard(&frame(continuation, b"")), [Heard::Violation(1002)], "nothing to continue");
    }
    for new in [TEXT, TEXT_PART, BINARY] {
        let stream = [frame(TEXT_PART, b"a"), frame(new, b"b")].concat();
        assert_eq!(heard(&stream), [Heard::Violation(1002)], "new message {new:x} inside a fragmented one");
    }
}

#[test]
fn length_not_in_its_shortest_form_is_1002() {
    assert_eq!(heard(&header(TEXT, 126, &125u16.to_be_bytes())), [Heard::Violation(1002)]);
    assert_eq!(heard(&header(TEXT, 127, &65_535u64.to_be_bytes())), [Heard::Violation(1002)]);
    assert_eq!(heard(&header(TEXT, 127, &0u64.to_be_bytes())), [Heard::Violation(1002)]);
}

#[test]
fn header_of_a_frame_over_the_limit_is_1009() {
    for length in [65_537, 1 << 31, 1 << 32, 1 << 62, 1 << 63, u64::MAX] {
        let mut decoder = Decoder::default();
        let heard = hear(&mut decoder, &header(TEXT, 127, &length.to_be_bytes()), LIMITS);
        assert_eq!(heard, [Heard::Violation(1009)], "{length}");
        assert_eq!(decoder.held(), 0);
    }
    let limits = Limits { max_message_bytes: 200, ..LIMITS };
    let heard = hear(&mut Decoder::default(), &header(TEXT, 126, &201u16.to_be_bytes()), limits);
    assert_eq!(heard, [Heard::Violation(1009)]);
}

#[test]
fn message_of_exactly_the_limit_is_decoded() {
    let payload = vec![b'x'; 65_536];
    assert_eq!(heard(&frame(TEXT, &payload)), [Heard::Text(payload.clone())]);
    let halves = [frame(TEXT_PART, &payload[..30_000]), frame(END_PART, &payload[30_000..])].concat();
    assert_eq!(heard(&halves), [Heard::Text(payload)]);
}

#[test]
fn fragments_over_the_limit_in_sum_are_1009() {
    let part = vec![b'x'; 40_000];
    let stream = [frame(TEXT_PART, &part), frame(END_PART, &part)].concat();
    assert_eq!(heard(&stream), [Heard::Violation(1009)]);
    let overflowing = [frame(TEXT_PART, b"x"), header(END_PART, 127, &u64::MAX.to_be_bytes())].concat();
    assert_eq!(heard(&overflowing), [Heard::Violation(1009)]);
}

#[test]
fn fragment_over_the_limit_is_1008() {
    let mut stream = frame(TEXT_PART, b"x");
    stream.extend(frame(MIDDLE_PART, b"x").repeat(62));
    assert_eq!(heard(&[stream.clone(), frame(END_PART, b"x")].concat()), [Heard::Text(vec![b'x'; 64])]);
    stream.extend(frame(MIDDLE_PART, b"x"));
    stream.extend(frame(END_PART, b"x"));
    assert_eq!(heard(&stream), [Heard::Violation(1008)]);
}

#[test]
fn close_bodies_are_checked() {
    assert_eq!(heard(&frame(CLOSE, b"")), [Heard::Close(None, String::new())]);
    assert_eq!(heard(&frame(CLOSE, b"\x03")), [Heard::Violation(1002)], "one byte");
    assert_eq!(heard(&frame(CLOSE, b"\x03\xe8\xff")), [Heard::Violation(1007)], "bad UTF-8");
    assert_eq!(heard(&frame(CLOSE, b"\x03\xe8\xc3")), [Heard::Violation(1007)], "half a character");
    for code in 0..=u16::MAX {
        let may_be_sent = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
        let expected = if may_be_sent { Heard::Close(Some(code), String::new()) } else { Heard::Violation(1002) };
        assert_eq!(heard(&frame(CLOSE, &code.to_be_bytes())), [expected], "code {code}");
    }
}

#[test]
fn bad_text_is_1007_whole_or_in_fragments() {
    for bad in [&b"\xff"[..], b"a\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"abc\xe2\x82"] {
        assert_eq!(heard(&frame(TEXT, bad)), [Heard::Violation(1007)], "{bad:x?}");
        for cut in 0..=bad.len() {
            let stream = [frame(TEXT_PART, &bad[..cut]), frame(END_PART, &bad[cut..])].concat();
            assert_eq!(heard(&stream), [Heard::Violation(1007)], "{bad:x?} cut at {cut}");
        }
    }
}

#[test]
fn bad_text_is_found_at_its_first_wrong_byte() {
    let whole = frame(TEXT, b"fine so far \xf4\x90\x80\x80 and long after");
    let wrong = whole.iter().len() - b"\x90\x80\x80 and long after".len();
    let mut decoder = Decoder::default();
    assert_eq!(hear(&mut decoder, &whole[..wrong], LIMITS), []);
    assert_eq!(hear(&mut decoder, &whole[wrong..=wrong], LIMITS), [Heard::Violation(1007)]);

    let mut decoder = Decoder::default();
    assert_eq!(hear(&mut decoder, &frame(TEXT_PART, b"a\xf4"), LIMITS), []);
    assert_eq!(hear(&mut decoder, &frame(MIDDLE_PART, b"\x90"), LIMITS), [Heard::Violation(1007)]);
}

#[test]
fn input_after_a_close_or_a_violation_is_ignored() {
    for last in [frame(CLOSE, b""), frame(TEXT, b"\xff"), frame(CLOSE, b"x")] {
        let mut decoder = Decoder::default();
        let stream = [last, frame(TEXT, b"ignored"), b"\x81".to_vec()].concat();
        assert_eq!(hear(&mut decoder, &stream, LIMITS).len(), 1);
        assert_eq!(hear(&mut decoder, &frame(TEXT, b"ignored"), LIMITS), []);
        assert!(!decoder.unfinished());
        assert_eq!(decoder.held(), 0);
    }
}

#[test]
fn unfinished_input_is_freed_once_complete() {
    let header_alone = frame(TEXT, b"x")[..3].to_vec();
    let half_a_frame = frame(TEXT, b"hello")[..8].to_vec();
    let half_a_ping = frame(PING, b"hello")[..8].to_vec();
    let fragment = frame(TEXT_PART, b"hello");
    for (beginning, end) in [
        (header_alone, frame(TEXT, b"x")[3..].to_vec()),
        (half_a_frame, frame(TEXT, b"hello")[8..].to_vec()),
        (half_a_ping, frame(PING, b"hello")[8..].to_vec()),
        (fragment, frame(END_PART, b"")),
    ] {
        let mut decoder = Decoder::default();
        assert_eq!(hear(&mut decoder, &beginning, LIMITS), []);
        assert!(decoder.unfinished());
        assert_eq!(hear(&mut decoder, &end, LIMITS).len(), 1);
        assert!(!decoder.unfinished());
        assert_eq!(decoder.held(), 0);
    }
}

#[test]
fn input_dropped_early_leaves_a_backlog() {
    let mut decoder = Decoder::default();
    let mut stream = [frame(TEXT, b"1"), frame(TEXT, b"2"), frame(TEXT, b"3")].concat();
    let mut input = decoder.feed(&mut stream, LIMITS);
    assert_eq!(input.next(), Ok(Some(Event::Text(b"1"))));
    drop(input);
    assert!(decoder.has_backlog());
    assert!(!decoder.unfinished());

    let rest = [b"2", b"3", b"4"].map(|text| Heard::Text(text.into()));
    assert_eq!(hear(&mut decoder, &frame(TEXT, b"4"), LIMITS), rest);
    assert!(!decoder.has_backlog());
}

#[test]
fn announced_length_allocates_nothing() {
    let mut decoder = Decoder::default();
    hear(&mut decoder, &frame(TEXT, &vec![b'x'; 60_000])[..100], LIMITS);
    assert!(decoder.held() < 200);
}

proptest! {
    #[test]
    fn valid_stream_decodes_equally_in_any_pieces(
        messages in vec(message(), 0..12),
        cuts in vec(1..400usize, 1..40),
    ) {
        let stream: Vec<u8> = messages.iter().flat_map(|(frames, _)| frames.clone()).collect();
        let expected: Vec<Heard> = messages.into_iter().flat_map(|(_, heard)| heard).collect();
        let limits = Limits { binary: true, ..LIMITS };
        prop_assert_eq!(&hear(&mut Decoder::default(), &stream, limits), &expected);
        prop_assert_eq!(&hear_in_pieces(&stream, &cuts, limits), &expected);
    }
}

const LIMITS: Limits = Limits { max_message_bytes: 65_536, max_fragments: 64, binary: false };

/// One message's frames, with control frames in between, and the expected events.
fn message() -> impl Strategy<Value = (Vec<u8>, Vec<Heard>)> {
    let payload = prop_oneof![
        ".{0,80}".prop_map(|text| (true, text.into_bytes())),
        "[a-zé]{100,400}".prop_map(|text| (true, text.into_bytes())),
        vec(any::<u8>(), 0..300).prop_map(|bytes| (false, bytes)),
    ];
    let fragment = (any::<prop::sample::Index>(), proptest::option::of(vec(any::<u8>(), 0..=125)), any::<[u8; 4]>());
    (payload, vec(fragment, 0..5), any::<[u8; 4]>()).prop_map(|((is_text, payload), fragments, last_key)| {
        let mut stream = Vec::new();
        let mut heard = Vec::new();
        let mut opcode = if is_text { 1 } else { 2 };
        let mut rest = payload.as_slice();
        for (cut, ping, key) in fragments {
            let (head, tail) = rest.split_at(cut.index(rest.len() + 1));
            stream.extend(frame_with(key, opcode, head));
            if let Some(ping) = ping {
                stream.extend(frame_with(key, PING, &ping));
                heard.push(Heard::Ping(ping));
            }
            (rest, opcode) = (tail, 0);
        }
        stream.extend(frame_with(last_key, 0x80 | opcode, rest));
        heard.push(if is_text { Heard::Text(payload) } else { Heard::Binary(payload) });
        (stream, heard)
    })
}

fn heard(stream: &[u8]) -> Vec<Heard> {
    hear(&mut Decoder::default(), stream, LIMITS)
}

/// Feeds `stream` in pieces, whose lengths are the values of `cuts` in a cycle.
fn hear_in_pieces(mut stream: &[u8], cuts: &[usize], limits: Limits) -> Vec<Heard> {
    let mut decoder = Decoder::default();
    let mut heard = Vec::new();
    for &cut in cuts.iter().cycle() {
        let (piece, tail) = stream.split_at(cut.min(stream.len()));
        heard.extend(hear(&mut decoder, piece, limits));
        stream = tail;
        if stream.is_empty() {
            break;
        }
    }
    heard
}

fn hear(decoder: &mut Decoder, stream: &[u8], limits: Limits) -> Vec<Heard> {
    let mut scratch = stream.to_vec();
    let mut heard = Vec::new();
    let mut input = decoder.feed(&mut scratch, limits);
    loop {
        heard.push(match input.next() {
            Ok(None) => break,
            Ok(Some(Event::Text(text))) => Heard::Text(text.into()),
            Ok(Some(Event::Binary(bytes))) => Heard::Binary(bytes.into()),
            Ok(Some(Event::Ping(bytes))) => Heard::Ping(bytes.into()),
            Ok(Some(Event::Pong(bytes))) => Heard::Pong(bytes.into()),
            Ok(Some(Event::Close(code, reason))) => Heard::Close(code, reason.into()),
            Err(violation) => Heard::Violation(violation.code),
        });
    }
    drop(input);
    assert!(decoder.rest.len() < 131, "more is left over than a control frame: {}", decoder.rest.len());
    let gathered = decoder.message.as_ref().map_or(0, |message| message.payload.capacity());
    assert!(gathered <= limits.max_message_bytes as usize, "a message holds {gathered} bytes");
    heard
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    frame_with(KEY, first, payload)
}

fn frame_with(key: [u8; 4], first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = match payload.len() {
        short @ 0..126 => vec![first, 0x80 | short as u8],
        medium @ 126..65_536 => [&[first, 0x80 | 126][..], &(medium as u16).to_be_bytes()].concat(),
        long => [&[first, 0x80 | 127][..], &(long as u64).to_be_bytes()].concat(),
    };
    frame.extend(key);
    frame.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

/// The header of a masked frame up to its length, as far as a refusal needs it.
fn header(first: u8, short: u8, length: &[u8]) -> Vec<u8> {
    [&[first, 0x80 | short], length].concat()
}
