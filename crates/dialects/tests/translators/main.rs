//! The translators, from outside.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

mod any_input;
mod calls;
mod golden;
mod groups;
mod mesh;
mod streaming;

use signaling_dialects::{Answer, Dialect, Head, Input, Opening, Settings};

/// Returns the answer to an upgrade request for `PATH?QUERY`, with this value as random bytes.
fn upgrade(dialect: Dialect, target: &str, random: u8) -> Answer {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let settings = Settings { pixelstreaming_max_players: Some(2), ..Settings::default() };
    dialect.request(&settings, &Head { method: "GET", path, query, upgrade: true, ..Head::default() }, &[random; 32])
}

fn open(dialect: Dialect, target: &str, random: u8) -> Opening {
    match upgrade(dialect, target, random) {
        Answer::Upgrade(opening) => *opening,
        other => panic!("{target}: {other:?}"),
    }
}

fn transcript(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::PeerJs => include_str!("../transcripts/peerjs.txt"),
        Dialect::YWebrtc => include_str!("../transcripts/y_webrtc.txt"),
        Dialect::Trystero => include_str!("../transcripts/trystero.txt"),
        Dialect::Rxdb => include_str!("../transcripts/rxdb.txt"),
        Dialect::PixelStreaming => include_str!("../transcripts/pixel_streaming.txt"),
        Dialect::Matchbox => include_str!("../transcripts/matchbox.txt"),
        Dialect::GStreamer => include_str!("../transcripts/gstreamer.txt"),
    }
}

/// Returns the input in a line of a transcript. `None`: the line is none, or depends on time.
fn input(line: &str) -> Option<Input<'_>> {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    match verb {
        "client>" => Some(Input::Text(rest.as_bytes())),
        "binary>" => Some(Input::Binary(rest.as_bytes())),
        "mesh<" => Some(Input::Mesh(rest.as_bytes())),
        "pong" => Some(Input::Pong),
        _ => None,
    }
}
