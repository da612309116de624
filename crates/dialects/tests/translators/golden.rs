//! Replays the transcripts against the pure translators.
//!
//! `>` points to the mesh, `<` to the client. `upgrade` opens a new socket. Lines below an input
//! are all its effects: requests, frames, Ping, close, events.
//!
//! | input | meaning |
//! |---|---|
//! | `upgrade PATH?QUERY` | upgrade request below the mount, with random bytes of 0 |
//! | `client> TEXT`, `binary> TEXT` | message of the client |
//! | `mesh< TEXT` | native message of the mesh |
//! | `taken` | another client has the id |
//! | `pong` | answer to a Ping |
//! | `wait N` | N milliseconds pass |

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use signaling_dialects::event::Event;
use signaling_dialects::request::Rejection;
use signaling_dialects::{Answer, Dialect, Input, Out, Translator};

struct Socket {
    dialect: Dialect,
    translator: Option<Translator>,
    if_taken: Option<Rejection>,
    now: Instant,
}

impl Socket {
    /// Returns the effects of an input line. `None`: the line is no input.
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
            Event::ReachWait => "count wait reach".to_owned(),
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
        assert_eq!(effects.next(), None, "{place}: the input before has another effect");
        effects = next.into_iter();
    }
    assert_eq!(effects.next(), None, "{}: the last input has another effect", dialect.as_str());
}

#[test]
fn transcripts_are_reproduced() {
    for dialect in Dialect::ALL {
        replay(dialect, crate::transcript(dialect));
    }
}
