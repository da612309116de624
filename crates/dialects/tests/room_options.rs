//! Rooms have the options that their translators need: nodes derive them from the names.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

use std::time::Instant;

use signaling_dialects::{Answer, Dialect, Head, Input, Out, Settings};
use signaling_protocol::RoomName;
use signaling_protocol::client::{self, ClientMessage};
use signaling_rooms::RoomOptions;

#[test]
fn room_has_the_options_that_its_translator_needs() {
    let joins = [
        (Dialect::YWebrtc, r#"{"type":"subscribe","topics":["t"]}"#, RoomOptions::QUIET),
        (Dialect::Trystero, r#"{"type":"subscribe","topic":"t"}"#, RoomOptions::QUIET),
        (Dialect::Rxdb, r#"{"type":"join","room":"room-1"}"#, RoomOptions::PROMPT),
        (Dialect::Matchbox, "", RoomOptions::PROMPT),
        (Dialect::GStreamer, "", RoomOptions::PROMPT),
    ];
    for (dialect, text, needed) in joins {
        let settings = Settings::default();
        let head = Head { method: "GET", upgrade: true, ..Head::default() };
        let Answer::Upgrade(mut opening) = dialect.request(&settings, &head, &[0; 32]) else { panic!("{dialect:?}") };
        let (now, mut out) = (Instant::now(), Out::default());
        opening.translator.input(now, Input::Mesh(br#"{"type":"welcome"}"#), &mut out);
        opening.translator.input(now, Input::Text(text.as_bytes()), &mut out);
        let request = out.requests.pop().unwrap();
        let Ok(ClientMessage::Join { room, .. }) = client::parse(request.as_bytes()) else { panic!("{request}") };
        assert_eq!(RoomOptions::of(&RoomName::new(&room).unwrap()), needed, "{room}");
    }
}
