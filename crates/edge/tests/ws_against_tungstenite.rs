//! The server codec against the client of `tungstenite`.

use std::collections::VecDeque;

use signaling_core::ws::{Decoder, Event, Limits, encode};
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::{Message, WebSocket};

#[test]
fn decoder_reads_the_frames_of_tungstenite() {
    let mut client = client();
    for length in LENGTHS {
        client.write(Message::text("é".repeat(length))).unwrap();
    }
    client.write(Message::Ping(b"ping".as_slice().into())).unwrap();
    client.close(Some(CloseFrame { code: 4000.into(), reason: "done".into() })).unwrap();

    let mut decoder = Decoder::default();
    let limits = Limits { max_message_bytes: 1 << 20, ..Limits::default() };
    let mut input = decoder.feed(client.get_mut().make_contiguous(), limits);
    for length in LENGTHS {
        assert_eq!(input.next().unwrap(), Some(Event::Text("é".repeat(length).as_bytes())));
    }
    assert_eq!(input.next().unwrap(), Some(Event::Ping(b"ping")));
    assert_eq!(input.next().unwrap(), Some(Event::Close(Some(4000), "done")));
    assert_eq!(input.next().unwrap(), None);
}

#[test]
fn tungstenite_reads_the_encoded_frames() {
    let mut out = Vec::new();
    for length in LENGTHS {
        encode::text(&mut out, "é".repeat(length).as_bytes());
        encode::text_parts(&mut out, &[b"<", &vec![b'x'; length], b">"]);
        encode::binary(&mut out, &vec![0xff; length]);
    }
    encode::ping(&mut out, b"ping");
    encode::pong(&mut out, b"pong");
    encode::close(&mut out, 4002, "too slow");

    let mut client = client();
    client.get_mut().extend(out);
    for length in LENGTHS {
        assert_eq!(client.read().unwrap(), Message::text("é".repeat(length)));
        assert_eq!(client.read().unwrap(), Message::text(format!("<{}>", "x".repeat(length))));
        assert_eq!(client.read().unwrap(), Message::binary(vec![0xff; length]));
    }
    assert_eq!(client.read().unwrap(), Message::Ping(b"ping".as_slice().into()));
    assert_eq!(client.read().unwrap(), Message::Pong(b"pong".as_slice().into()));
    let close = CloseFrame { code: 4002.into(), reason: "too slow".into() };
    assert_eq!(client.read().unwrap(), Message::Close(Some(close)));
}

/// Payload lengths around each change of the length's form.
const LENGTHS: [usize; 8] = [0, 1, 62, 63, 125, 126, 32_768, 65_536];

/// Returns a client that reads from the front of a queue and writes to its end.
fn client() -> WebSocket<VecDeque<u8>> {
    WebSocket::from_raw_socket(VecDeque::new(), Role::Client, None)
}
