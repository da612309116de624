//! Rooms have the options that their translators need: nodes derive them from the names.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

use std::time::Instant;

use signaling_dialects::native::{RoomEvents, RoomOptions};
use signaling_dialects::peerjs::Keys;
use signaling_dialects::{Answer, Dialect, Head, Input, Out, Settings};
use signaling_protocol::RoomName;
use signaling_protocol::client::{self, ClientMessage};

#[test]
fn room_has_the_options_that_its_translator_needs() {
    let joins = [
        (Dialect::YWebrtc, r#"{"type":"subscribe","topics":["t"]}"#),
        (Dialect::Trystero, r#"{"type":"subscribe","topic":"t"}"#),
        (Dialect::Rxdb, r#"{"type":"join","room":"room-1"}"#),
    ];
    for (dialect, text) in joins {
        let settings = Settings { tokens: false, peerjs_keys: Keys::default() };
        let head = Head { method: "GET", upgrade: true, ..Head::default() };
        let Answer::Upgrade(mut opening) = dialect.request(&settings, &head, &[0; 32]) else { panic!("{dialect:?}") };
        let (now, mut out) = (Instant::now(), Out::default());
        opening.translator.input(now, Input::Mesh(br#"{"type":"welcome"}"#), &mut out);
        opening.translator.input(now, Input::Text(text.as_bytes()), &mut out);
        let request = out.requests.pop().unwrap();
        let Ok(ClientMessage::Join { room, .. }) = client::parse(request.text.as_bytes()) else {
            panic!("{request:?}")
        };
        let RoomOptions { events, open } = request.room.unwrap();
        let events = match events {
            RoomEvents::None => signaling_rooms::RoomEvents::None,
            RoomEvents::Prompt => signaling_rooms::RoomEvents::Prompt,
        };
        let given = signaling_rooms::RoomOptions::of(&RoomName::new(&room).unwrap());
        assert_eq!(given, signaling_rooms::RoomOptions { events, open }, "{room}");
    }
}
