//! Replays `tests/transcripts`. Each input is followed by all its effects. Empty lines and lines
//! that begin with `#` are ignored. `>` points to the mesh, `<` to the client.
//!
//! | input | meaning |
//! |---|---|
//! | `upgrade PATH?QUERY` | new socket: a path below the dialect's mount; all random bytes are 0 |
//! | `client> TEXT`, `binary> TEXT` | text or binary message of the client |
//! | `mesh< TEXT` | native message of the mesh |
//! | `taken` | another client has the id of the `upgrade` |
//! | `pong` | answer to a Ping |
//! | `wait N` | N milliseconds pass, with a tick at each deadline up to a close |
//!
//! The effects of an input or a tick are in this order. `upgrade` yields a session, a status, or a
//! frame and a close.
//!
//! | effect | meaning |
//! |---|---|
//! | `session ID LIFETIME` | opens a session with this client id; `LIFETIME` is a `Lifetime` |
//! | `status N` | HTTP answer instead of the upgrade; 404 also for an unknown path |
//! | `mesh> TEXT` | native request to the mesh |
//! | `client< TEXT` | text frame to the client |
//! | `ping` | Ping to the client |
//! | `close CODE REASON`, `close without code` | close frame; without a space if `REASON` is empty |
//! | `count ignored REASON xN` | `Event::Ignored`, `N` times; without `xN` once |
//! | `count answer KIND xN` | `Event::Answered` |
//! | `count wait room xN` | `Event::RoomWait` |

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use signaling_dialects::event::Event;
use signaling_dialects::request::Rejection;
use signaling_dialects::{Answer, Dialect, Input, Out, Translator};

struct Socket {
    dialect: Dialect,
    translator: Option<Translator>,
    /// Refusal for `taken`. `None`: the dialect has none, or it is used.
    if_taken: Option<Rejection>,
    now: Instant,
}

impl Socket {
    /// Executes an input line and returns its effects. `None`: the line is no input, or `taken`
    /// without a refusal. Panics if the input needs a socket and there is none.
    fn step(&mut self, line: &str) -> Option<Vec<String>> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "upgrade" => Some(self.upgrade(rest)),
            "wait" => Some(self.wait(Duration::from_millis(rest.parse().unwrap()))),
            "taken" => self.if_taken.take().map(|rejection| rejected(&rejection)),
            _ => crate::input(line).map(|input| self.input(input)),
        }
    }

    fn input(&mut self, input: Input<'_>) -> Vec<String> {
        let mut out = Out::default();
        self.translator.as_mut().unwrap().input(self.now, input, &mut out);
        lines(&out)
    }

    fn wait(&mut self, time: Duration) -> Vec<String> {
        let (until, mut effects) = (self.now + time, Vec::new());
        while let Some(deadline) = self.translator.as_ref().unwrap().deadline().filter(|deadline| *deadline <= until) {
            self.now = deadline;
            let ticked = self.input(Input::Tick);
            let closes = ticked.iter().any(|line| line.starts_with("close"));
            effects.extend(ticked);
            if closes {
                break;
            }
        }
        self.now = until;
        effects
    }

    fn upgrade(&mut self, target: &str) -> Vec<String> {
        self.translator = None;
        match crate::upgrade(self.dialect, target, 0) {
            Answer::Upgrade(opening) => {
                (self.translator, self.if_taken) = (Some(opening.translator), opening.if_taken);
                vec![format!("session {} {:?}", opening.client_id, opening.lifetime)]
            }
            Answer::Reject(rejection) => rejected(&rejection),
            Answer::Http(answer) => vec![format!("status {}", answer.status)],
            Answer::NotFound => vec!["status 404".to_owned()],
        }
    }
}

fn rejected(rejection: &Rejection) -> Vec<String> {
    lines(&Out { frames: vec![rejection.frame.clone()], close: Some(rejection.close.clone()), ..Out::default() })
}

fn lines(out: &Out) -> Vec<String> {
    let requests = out.requests.iter().map(|request| format!("mesh> {request}"));
    let frames = out.frames.iter().map(|frame| format!("client< {frame}"));
    let close = out.close.iter().map(|close| match close.code {
        Some(code) if close.reason.is_empty() => format!("close {}", code.0),
        Some(code) => format!("close {} {}", code.0, close.reason),
        None => "close without code".to_owned(),
    });
    let events = out.events.iter().map(|(event, count)| {
        let mut line = match event {
            Event::Ignored(reason) => format!("count ignored {reason:?}"),
            Event::Answered(kind) => format!("count answer {kind:?}"),
            Event::RoomWait => "count wait room".to_owned(),
        };
        if *count > 1 {
            write!(line, " x{count}").unwrap();
        }
        line
    });
    let ping = out.ping.then(|| "ping".to_owned());
    requests.chain(frames).chain(ping).chain(close).chain(events).collect()
}

fn replay(dialect: Dialect, transcript: &str) {
    let mut socket = Socket { dialect, translator: None, if_taken: None, now: Instant::now() };
    let mut effects = Vec::new().into_iter();
    let meaningful = transcript.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    for (number, line) in meaningful {
        let place = format!("{} line {}", dialect.as_str(), number + 1);
        let Some(next) = socket.step(line) else {
            assert_eq!(effects.next().as_deref(), Some(line), "{place}");
            continue;
        };
        assert_eq!(effects.next(), None, "{place}: the transcript lacks an effect of the input before");
        effects = next.into_iter();
    }
    assert_eq!(effects.next(), None, "{}: the transcript lacks an effect of the last input", dialect.as_str());
}

#[test]
fn translators_have_exactly_the_effects_of_their_transcripts() {
    for dialect in Dialect::ALL {
        replay(dialect, crate::transcript(dialect));
    }
}
