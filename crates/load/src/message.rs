//! Texts of the harness: numbered messages, and parsed answers of servers, for `exchange`. Pure.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Wire protocol of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wire {
    /// The mesh's own.
    #[default]
    Native,
    /// PeerJS: messages are offers, and the server acknowledges none.
    Peerjs,
    /// y-webrtc: messages are publications to the topic of a group, and the server acknowledges
    /// none.
    YWebrtc,
}

impl Wire {
    /// Returns the first text of a client, which the server answers. `None`: the server greets.
    pub(crate) fn hello(self) -> Option<&'static str> {
        (self == Self::YWebrtc).then_some(r#"{"type":"ping"}"#)
    }
}

/// Returns the text by which a client of y-webrtc subscribes to a topic, which needs no escape.
pub(crate) fn subscribe(topic: &str) -> String {
    format!(r#"{{"type":"subscribe","topics":["{topic}"]}}"#)
}

/// Size of a message's `data` as JSON, which is longer if its numbers need more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Size of an ICE candidate: 200 bytes.
    Ice,
    /// Size of a session description: 3,000 bytes.
    Sdp,
    /// Ten candidates of 200 to 300 bytes to one description of 2,000 to 4,000 bytes.
    Varied,
    /// A fixed number of bytes, at most 60,000.
    Bytes(usize),
}

const ICE_BYTES: usize = 200;
const SDP_BYTES: usize = 3_000;
const VARIED_ICE_BYTES: RangeInclusive<usize> = 200..=300;
const VARIED_SDP_BYTES: RangeInclusive<usize> = 2_000..=4_000;
const MIXED_RUN: u64 = 11;
/// Minimum `data` in bytes that looks like a session description; shorter data looks like an ICE
/// candidate.
const MIN_DESCRIPTION_BYTES: usize = 1_000;
/// Maximum `data` in bytes. With its envelope it is below the servers' default limit.
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
    /// Returns the length of the `data` of message `number`, in bytes. It depends on nothing else.
    pub(crate) fn bytes(self, number: u64) -> usize {
        match self {
            Self::Ice => ICE_BYTES,
            Self::Sdp => SDP_BYTES,
            Self::Bytes(bytes) => bytes,
            Self::Varied if number.is_multiple_of(MIXED_RUN) => varied(&VARIED_SDP_BYTES, number),
            Self::Varied => varied(&VARIED_ICE_BYTES, number),
        }
    }
}

/// Writer and parser for the messages of one run, which have a mark.
#[derive(Debug)]
pub(crate) struct Format {
    run: u32,
    wire: Wire,
    ice: String,
    sdp: String,
}

/// A message that a client received from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Received<'a> {
    Message(Arrival<'a>),
    /// The message of this `id` was delivered.
    Ack(u64),
    /// A failed request, with its `id` if it had one. `code` is that of `error`, or the type
    /// `EXPIRE` or `ERROR` of PeerJS, which have no id.
    Error {
        code: Cow<'a, str>,
        id: Option<u64>,
    },
    /// Any other text, by its type, or `not JSON`; `signal`, `OFFER` and `publish` are messages of
    /// another run or without a sender.
    Other(Cow<'a, str>),
}

/// A message of this run, as its sender wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival<'a> {
    pub(crate) from: Cow<'a, str>,
    /// Number among the messages of its sender, from 1; 0 for a probe.
    pub(crate) number: u64,
    /// Time at which it was due, in microseconds on the run's clock.
    pub(crate) time_us: u64,
    pub(crate) tag: u64,
}

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, alias = "src")]
    from: Option<Cow<'a, str>>,
    #[serde(borrow)]
    code: Option<Cow<'a, str>>,
    id: Option<u64>,
    #[serde(alias = "payload")]
    data: Option<Data>,
}

/// The `data` of a message, without its padding. Data of other programs lacks the fields.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Data {
    r: Option<u32>,
    n: u64,
    t: u64,
    c: u64,
}

impl Format {
    /// Creates a format for the run with this mark, by which its messages differ from those of runs
    /// with equal client ids.
    pub(crate) fn new(run: u32, wire: Wire) -> Self {
        let repeated = |text: &str| text.repeat(MAX_BYTES.div_ceil(text.len()) + 1);
        Self { run, wire, ice: repeated(ICE_TEXT), sdp: repeated(SDP_TEXT) }
    }

    /// Returns message `number` of a sender to a client or topic, due at `time_us`. Names must need
    /// no escape in JSON. An `id` requests an `ack`; only native messages have it. The data is
    /// longer than `bytes` if those are too few for the numbers. Above 60,000 bytes it may panic.
    pub(crate) fn write(
        &self,
        [from, to]: [&str; 2],
        number: u64,
        time_us: u64,
        tag: u64,
        id: Option<u64>,
        bytes: usize,
    ) -> String {
        let text = if bytes < MIN_DESCRIPTION_BYTES { &self.ice } else { &self.sdp };
        let head = format!(r#"{{"r":{},"n":{number},"t":{time_us},"c":{tag},"pad":""#, self.run);
        let end = r#""}"#;
        let pad = pad(text, bytes.saturating_sub(head.len() + end.len()));
        let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
        match self.wire {
            Wire::Native => format!(r#"{{"type":"signal","to":"{to}",{id}"data":{head}{pad}{end}}}"#),
            Wire::Peerjs => format!(r#"{{"type":"OFFER","dst":"{to}","payload":{head}{pad}{end}}}"#),
            Wire::YWebrtc => {
                format!(r#"{{"type":"publish","topic":"{to}","from":"{from}","data":{head}{pad}{end}}}"#)
            }
        }
    }

    /// Parses a text of a server. One that is no JSON object with a `type` is `Other`, `not JSON`.
    pub(crate) fn read<'a>(&self, text: &'a str) -> Received<'a> {
        let Ok(Text { kind, from, code, id, data }) = serde_json::from_str(text) else {
            return Received::Other("not JSON".into());
        };
        let data = data.filter(|data| data.r == Some(self.run));
        match (&*kind, from, data, code, id) {
            ("signal" | "OFFER" | "publish", Some(from), Some(Data { n, t, c, .. }), ..) => {
                Received::Message(Arrival { from, number: n, time_us: t, tag: c })
            }
            ("error", .., Some(code), id) => Received::Error { code, id },
            ("EXPIRE" | "ERROR", ..) => Received::Error { code: kind, id: None },
            ("ack", .., Some(id)) => Received::Ack(id),
            _ => Received::Other(kind),
        }
    }
}

/// Returns a length within the bounds that varies by message.
fn varied(bounds: &RangeInclusive<usize>, number: u64) -> usize {
    let drawn = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    bounds.start() + drawn as usize % (bounds.end() - bounds.start() + 1)
}

/// Returns `length` bytes of a repeated text, shifted by one byte if the end would cut an escape.
fn pad(text: &str, length: usize) -> &str {
    let cut = &text[..length];
    if cut.ends_with('\\') { &text[1..=length] } else { cut }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PAIR: [&str; 2] = ["alice", "bob"];

    fn data_length(message: &str) -> usize {
        let parsed: serde_json::Value = serde_json::from_str(message).unwrap();
        assert_eq!(parsed["type"], "signal");
        assert_eq!(parsed["to"], "bob");
        message.len() - message.find("\"data\":").unwrap() - "\"data\":".len() - 1
    }

    #[test]
    fn data_is_json_of_the_requested_size_wherever_it_is_cut() {
        let format = Format::new(u32::MAX, Wire::Native);
        for (size, bytes) in
            [(Size::Ice, 200), (Size::Sdp, 3_000), (Size::Bytes(777), 777), (Size::Bytes(60_000), 60_000)]
        {
            for digits in 0..12 {
                let message = format.write(PAIR, 1, 10_u64.pow(digits), 7, Some(77), size.bytes(1));
                assert_eq!(data_length(&message), bytes);
                assert!(message.contains("\"id\":77,"), "{message}");
            }
        }
    }

    #[test]
    fn varied_messages_differ_within_the_bounds_of_their_kind() {
        let format = Format::new(1, Wire::Native);

        let lengths =
            (1..=1_100).map(|number| data_length(&format.write(PAIR, number, 0, 0, None, Size::Varied.bytes(number))));
        let (long, short): (BTreeSet<usize>, BTreeSet<usize>) = lengths.partition(|length| *length > 1_000);

        assert!(long.len() > 50 && long.iter().all(|length| VARIED_SDP_BYTES.contains(length)), "{long:?}");
        assert!(short.len() > 50 && short.iter().all(|length| VARIED_ICE_BYTES.contains(length)), "{short:?}");
    }

    #[test]
    fn message_of_this_run_is_read_with_its_numbers() {
        let arrival = Arrival { from: "alice".into(), number: 17, time_us: 3_500, tag: 5 };
        for (wire, head, relayed_head) in [
            (Wire::Native, r#"{"type":"signal","to":"bob","#, r#"{"type":"signal","from":"alice","#),
            (Wire::Peerjs, r#"{"type":"OFFER","dst":"bob","#, r#"{"type":"OFFER","src":"alice","#),
            (Wire::YWebrtc, r#"{"type":"publish","topic":"bob","#, r#"{"clients":3,"type":"publish","topic":"bob","#),
        ] {
            let format = Format::new(42, wire);
            let message = format.write(PAIR, 17, 3_500, 5, Some(9), 200);
            let relayed = relayed_head.to_owned() + message.strip_prefix(head).unwrap();
            assert_eq!(format.read(&relayed), Received::Message(arrival.clone()));
            let of_another_run = Format::new(41, wire).read(&relayed);
            assert!(matches!(&of_another_run, Received::Other(kind) if head.contains(&**kind)), "{of_another_run:?}");
        }
        let format = Format::new(42, Wire::Native);
        let unrelayed = format.write(PAIR, 17, 3_500, 5, None, 200);
        assert_eq!(format.read(&unrelayed), Received::Other("signal".into()));
    }

    #[test]
    fn answers_are_distinguished_from_other_texts() {
        let error = |id| Received::Error { code: "rate_limited".into(), id };
        for (text, heard) in [
            (r#"{"type":"ack","id":7}"#, Received::Ack(7)),
            (r#"{"type":"error","code":"rate_limited","message":"slow"}"#, error(None)),
            (r#"{"type":"error","code":"rate_limited","id":3,"message":"slow"}"#, error(Some(3))),
            (r#"{"type":"EXPIRE","src":"bob","dst":"alice"}"#, Received::Error { code: "EXPIRE".into(), id: None }),
            (r#"{"type":"moved","node":"node-1"}"#, Received::Other("moved".into())),
            (r#"{"type":"signal","from":"eve","data":{"x":1}}"#, Received::Other("signal".into())),
            ("?", Received::Other("not JSON".into())),
        ] {
            assert_eq!(Format::new(1, Wire::Native).read(text), heard);
        }
    }

    #[test]
    fn sizes_are_read_from_the_command_line() {
        assert_eq!("varied".parse(), Ok(Size::Varied));
        assert_eq!("300".parse(), Ok(Size::Bytes(300)));
        assert!("huge".parse::<Size>().is_err());
        assert!("99999999".parse::<Size>().is_err());
    }
}
