//! Translators of other signaling protocols.

use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use signaling_dialects::{Answer, Dialect, Head, Input, Out, Settings, Translator};
use signaling_protocol::client;

/// Maximum state of one translator, in bytes: lists of members, and requests.
const MAX_STATE: usize = 6 * 1024 * 1024;

/// Opens a session for `PATH?QUERY` of the public listener. `None`: no dialect serves it.
fn open(target: &str) -> Option<Translator> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let settings = Settings::default();
    let (dialect, path) = Dialect::of_path(&settings, path)?;
    let head = Head { method: "GET", path, query, upgrade: true, ..Head::default() };
    match dialect.request(&settings, &head, &[0; 32]) {
        Answer::Upgrade(opening) => Some(opening.translator),
        _ => None,
    }
}

/// Passes the inputs of sessions to translators and checks the outputs. The bytes are lines of
/// `upgrade`, `client>`, `binary>`, `mesh<`, `pong` and `wait`, as in transcripts of the dialects;
/// the path of `upgrade` begins with the dialect's mount. Other lines have no effect, and neither
/// has an input without a session.
///
/// # Panics
/// If a request to the mesh is invalid, or a frame to the client is no JSON. If a translator
/// retains more than 6 MiB.
pub fn dialects(transcript: &[u8]) {
    let mut now = Instant::now();
    let mut session = None;
    for line in transcript.split(|byte| *byte == b'\n') {
        let space = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (verb, rest) = (&line[..space], line.get(space + 1..).unwrap_or_default());
        let input = match verb {
            b"upgrade" => {
                session = std::str::from_utf8(rest).ok().and_then(open);
                continue;
            }
            b"client>" => Input::Text(rest),
            b"binary>" => Input::Binary(rest),
            b"mesh<" => Input::Mesh(rest),
            b"pong" => Input::Pong,
            b"wait" => {
                let ms = std::str::from_utf8(rest).ok().and_then(|ms| ms.parse::<u32>().ok()).unwrap_or_default();
                now += Duration::from_millis(ms.into());
                Input::Tick
            }
            _ => continue,
        };
        let Some(translator) = &mut session else { continue };
        let mut out = Out::default();
        translator.input(now, input, &mut out);
        for request in &out.requests {
            assert!(client::parse(request.as_bytes()).is_ok(), "{request}");
        }
        for frame in &out.frames {
            assert!(serde_json::from_str::<&RawValue>(frame).is_ok(), "{frame}");
        }
        assert!(translator.retained_bytes() <= MAX_STATE, "{} bytes", translator.retained_bytes());
        if out.close.is_some() {
            session = None;
        }
    }
}
