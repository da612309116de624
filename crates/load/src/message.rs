//! How the harness writes its messages and finds its numbers in those that arrive, without a JSON parser on the way of
//! every message.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::Deserialize;

/// How much `data` a message carries, all of its JSON counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// As an ICE candidate: 200 bytes.
    Ice,
    /// As a session description: 3,000 bytes.
    Sdp,
    /// Ten candidates of 200 to 300 bytes to one description of 2,000 to 4,000.
    Varied,
    /// So many bytes.
    Bytes(usize),
}

/// The length of one message's data, and what its text looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Body {
    bytes: usize,
    is_description: bool,
}

const ICE_BYTES: usize = 200;
const SDP_BYTES: usize = 3_000;
const VARIED_ICE_BYTES: RangeInclusive<usize> = 200..=300;
const VARIED_SDP_BYTES: RangeInclusive<usize> = 2_000..=4_000;
const MIXED_RUN: u64 = 11;
/// The largest `data` the harness writes: what servers take with their envelope, by default.
const MAX_BYTES: usize = 60_000;

const ICE_TEXT: &str = "candidate:842163049 1 udp 1677729535 198.51.100.7 46154 typ srflx raddr 192.0.2.10 \
                        rport 46154 generation 0 ufrag EsAw network-id 1 network-cost 10 ";
const SDP_TEXT: &str =
    r"a=rtpmap:111 opus/48000/2\r\na=fmtp:111 minptime=10;useinbandfec=1\r\na=rtcp-fb:111 transport-cc\r\na=mid:0\r\n";

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "ice" => Ok(Self::Ice),
            "sdp" => Ok(Self::Sdp),
            "varied" => Ok(Self::Varied),
            bytes => match bytes.parse() {
                Ok(bytes) if bytes <= MAX_BYTES => Ok(Self::Bytes(bytes)),
                _ => Err(format!("use ice, sdp, varied, or a number of bytes up to {MAX_BYTES}")),
            },
        }
    }
}

impl Size {
    /// The body of a message with this number.
    pub(crate) fn body(self, number: u64) -> Body {
        match self {
            Self::Ice => Body::candidate(ICE_BYTES),
            Self::Bytes(bytes) => Body::candidate(bytes),
            Self::Sdp => Body::description(SDP_BYTES),
            Self::Varied if number.is_multiple_of(MIXED_RUN) => Body::description(varied(&VARIED_SDP_BYTES, number)),
            Self::Varied => Body::candidate(varied(&VARIED_ICE_BYTES, number)),
        }
    }
}

impl Body {
    pub(crate) fn candidate(bytes: usize) -> Self {
        Self { bytes, is_description: false }
    }

    pub(crate) fn description(bytes: usize) -> Self {
        Self { bytes, is_description: true }
    }
}

/// Writes and recognises the messages of one run; those of an earlier run are told apart by its mark.
#[derive(Debug)]
pub(crate) struct Format {
    marker: String,
    /// What stands before the sender's name.
    sender: &'static str,
    ice: String,
    sdp: String,
}

/// What the harness wrote into a message that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival<'a> {
    pub(crate) from: &'a str,
    pub(crate) number: u64,
    pub(crate) time_us: u64,
    pub(crate) tag: u64,
}

impl Format {
    pub(crate) fn new(run: u32) -> Self {
        let repeated = |text: &str| text.repeat(MAX_BYTES.div_ceil(text.len()) + 1);
        Self {
            marker: format!("\"data\":{{\"r\":{run},\"n\":"),
            sender: "\"from\":\"",
            ice: repeated(ICE_TEXT),
            sdp: repeated(SDP_TEXT),
        }
    }

    /// Of a server that gives messages back as they are to those who sent them, to themselves.
    pub(crate) fn echoed(self) -> Self {
        Self { sender: "\"to\":\"", ..self }
    }

    /// Message `number` of its pair, to the client `to`, to be sent at `time_us`; with an `id` it asks for an `ack`.
    pub(crate) fn write(&self, to: &str, number: u64, time_us: u64, tag: u64, id: Option<u64>, body: Body) -> String {
        let Body { bytes, is_description } = body;
        let text = if is_description { &self.sdp } else { &self.ice };
        let mut message = String::with_capacity(bytes + 180);
        message.push_str("{\"type\":\"signal\",\"to\":\"");
        message.push_str(to);
        message.push_str("\",");
        // Writing to a String cannot fail.
        if let Some(id) = id {
            let _ = write!(message, "\"id\":{id},");
        }
        let begin = message.len() + "\"data\":".len();
        let _ = write!(message, "{}{number},\"t\":{time_us},\"c\":{tag},\"pad\":\"", self.marker);
        let end = "\"}";
        message.push_str(pad(text, (begin + bytes).saturating_sub(message.len() + end.len())));
        message.push_str(end);
        message.push('}');
        message
    }

    /// The numbers of a message of this run; `None` for anything else.
    pub(crate) fn read<'a>(&self, text: &'a str) -> Option<Arrival<'a>> {
        let at = text.find(&self.marker)?;
        let (number, rest) = leading_number(&text[at + self.marker.len()..])?;
        let (time_us, rest) = leading_number(rest.strip_prefix(",\"t\":")?)?;
        let (tag, _) = leading_number(rest.strip_prefix(",\"c\":")?)?;
        // The sender stands before or after the data, whose own text has no such field.
        let begin = text.find(self.sender)? + self.sender.len();
        let length = text[begin..].find('"')?;
        Some(Arrival { from: &text[begin..begin + length], number, time_us, tag })
    }
}

/// A text that is no message of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The message of this `id` was delivered.
    Ack(u64),
    /// A request failed: the code, and which one where it had an `id`.
    Error { code: String, id: Option<u64> },
    /// Anything else, by its type.
    Other(String),
}

/// What a text says that is no message of ours.
pub(crate) fn read_answer(text: &str) -> Answer {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(rename = "type", borrow)]
        kind: std::borrow::Cow<'a, str>,
        code: Option<String>,
        id: Option<u64>,
    }
    match serde_json::from_str::<Head<'_>>(text) {
        Ok(Head { kind, code: Some(code), id }) if kind == "error" => Answer::Error { code, id },
        Ok(Head { kind, id: Some(id), .. }) if kind == "ack" => Answer::Ack(id),
        Ok(Head { kind, .. }) => Answer::Other(kind.into_owned()),
        Err(_) => Answer::Other("not JSON".to_owned()),
    }
}

/// A length within the bounds, another for each message.
fn varied(bounds: &RangeInclusive<usize>, number: u64) -> usize {
    let drawn = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    bounds.start() + drawn as usize % (bounds.end() - bounds.start() + 1)
}

/// The first `length` bytes of a repeated text, moved by one where that would cut an escape in two.
fn pad(text: &str, length: usize) -> &str {
    let cut = &text[..length];
    if cut.ends_with('\\') { &text[1..=length] } else { cut }
}

fn leading_number(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    /// As a server passes it on.
    fn passed_on(message: &str) -> String {
        message.replacen("\"to\":\"bob\"", "\"from\":\"alice\"", 1)
    }

    fn data_length(message: &str) -> usize {
        let parsed: serde_json::Value = serde_json::from_str(message).unwrap();
        assert_eq!(parsed["type"], "signal");
        assert_eq!(parsed["to"], "bob");
        message.len() - message.find("\"data\":").unwrap() - "\"data\":".len() - 1
    }

    #[test]
    fn data_has_exactly_the_size_asked_for_and_is_json() {
        let format = Format::new(u32::MAX);
        for (size, bytes) in
            [(Size::Ice, 200), (Size::Sdp, 3_000), (Size::Bytes(777), 777), (Size::Bytes(60_000), 60_000)]
        {
            for number in [1, 99, 123_456_789] {
                assert_eq!(data_length(&format.write("bob", number, 4_000_000, 0, None, size.body(number))), bytes);
            }
        }
    }

    #[test]
    fn a_session_description_is_json_wherever_it_is_cut() {
        let format = Format::new(1);
        for digits in 0..12 {
            data_length(&format.write("bob", 1, 10_u64.pow(digits), 7, None, Size::Sdp.body(0)));
        }
    }

    #[test]
    fn varied_messages_keep_within_the_bounds_of_their_kind_and_differ() {
        let format = Format::new(1);

        let lengths =
            (1..=1_100).map(|number| data_length(&format.write("bob", number, 0, 0, None, Size::Varied.body(number))));
        let (long, short): (BTreeSet<usize>, BTreeSet<usize>) = lengths.partition(|length| *length > 1_000);

        assert!(long.len() > 50 && long.iter().all(|length| VARIED_SDP_BYTES.contains(length)), "{long:?}");
        assert!(short.len() > 50 && short.iter().all(|length| VARIED_ICE_BYTES.contains(length)), "{short:?}");
    }

    #[test]
    fn the_numbers_are_found_again_wherever_the_sender_stands() {
        let format = Format::new(42);
        let message = passed_on(&format.write("bob", 17, 3_500, 5, None, Body::candidate(200)));
        let arrival = Arrival { from: "alice", number: 17, time_us: 3_500, tag: 5 };

        assert_eq!(format.read(&message), Some(arrival));
        let head = "{\"type\":\"signal\",\"from\":\"alice\",";
        let turned =
            format!("{{{}{}", &message[head.len()..message.len() - 1], ",\"from\":\"alice\",\"type\":\"signal\"}");
        assert_eq!(format.read(&turned), Some(arrival));
    }

    #[test]
    fn messages_of_another_run_and_other_texts_are_none_of_ours() {
        let message = passed_on(&Format::new(41).write("bob", 17, 3_500, 5, None, Body::candidate(200)));

        assert_eq!(Format::new(42).read(&message), None);
        assert_eq!(Format::new(42).read("{\"type\":\"pong\"}"), None);
    }

    #[test]
    fn of_an_echo_the_recipient_is_the_sender_and_of_others_it_is_not() {
        let message = Format::new(42).write("bob", 17, 3_500, 5, None, Body::candidate(200));
        let arrival = Arrival { from: "bob", number: 17, time_us: 3_500, tag: 5 };

        assert_eq!(Format::new(42).echoed().read(&message), Some(arrival));
        assert_eq!(Format::new(42).read(&message), None);
    }

    #[test]
    fn an_id_is_beside_the_data_and_does_not_count() {
        let message = Format::new(1).write("bob", 1, 0, 0, Some(77), Body::candidate(200));

        assert_eq!(data_length(&message), ICE_BYTES);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&message).unwrap()["id"], 77);
    }

    #[test]
    fn answers_are_told_apart_and_the_rest_is_named() {
        let error = |id| Answer::Error { code: "rate_limited".to_owned(), id };

        assert_eq!(read_answer(r#"{"type":"ack","id":7}"#), Answer::Ack(7));
        assert_eq!(read_answer(r#"{"type":"error","code":"rate_limited","message":"slow"}"#), error(None));
        assert_eq!(read_answer(r#"{"type":"error","code":"rate_limited","id":3,"message":"slow"}"#), error(Some(3)));
        assert_eq!(read_answer(r#"{"type":"moved","node":"node-1"}"#), Answer::Other("moved".to_owned()));
        assert_eq!(read_answer("?"), Answer::Other("not JSON".to_owned()));
    }

    #[test]
    fn sizes_are_read_from_the_command_line() {
        assert_eq!("varied".parse(), Ok(Size::Varied));
        assert_eq!("300".parse(), Ok(Size::Bytes(300)));
        assert!("huge".parse::<Size>().is_err());
        assert!("99999999".parse::<Size>().is_err());
    }
}
