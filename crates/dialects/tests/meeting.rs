//! Two subscribers of a topic always meet, although the mesh refuses and delays their requests.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use signaling_dialects::{Answer, Dialect, Head, Input, Out, Settings, Translator};
use signaling_protocol::client::{self, ClientMessage};

/// A client, and a mesh that executes its requests in order.
struct Client {
    translator: Translator,
    requests: VecDeque<String>,
    /// Frames that the client received.
    frames: Vec<String>,
    is_member: bool,
}

impl Client {
    fn new(number: u8) -> Self {
        let settings = Settings::default();
        let head = Head { method: "GET", upgrade: true, ..Head::default() };
        let Answer::Upgrade(opening) = Dialect::YWebrtc.request(&settings, &head, &[number; 32]) else { panic!() };
        Self { translator: opening.translator, requests: VecDeque::new(), frames: Vec::new(), is_member: false }
    }

    fn input(&mut self, now: Instant, input: Input<'_>) {
        let mut out = Out::default();
        self.translator.input(now, input, &mut out);
        assert_eq!(out.close, None);
        self.requests.extend(out.requests);
        self.frames.extend(out.frames);
    }

    fn received(&self, announce: &str) -> usize {
        self.frames.iter().filter(|frame| frame.contains(announce)).count()
    }
}

/// Executes or refuses the next request of a client.
fn execute(clients: &mut [Client; 2], now: Instant, number: usize, refuse: bool) {
    let Some(text) = clients[number].requests.pop_front() else { return };
    let message = client::parse(text.as_bytes()).unwrap();
    let id = message.id().unwrap();
    if refuse {
        let error = format!(
            r#"{{"type":"error","code":"room_store_unavailable","message":"","id":{id},"retry_after_ms":300}}"#
        );
        return clients[number].input(now, Input::Mesh(error.as_bytes()));
    }
    match message {
        ClientMessage::Join { .. } => clients[number].is_member = true,
        ClientMessage::Broadcast { room, data, .. } if clients[1 - number].is_member => {
            let text = format!(r#"{{"type":"broadcast","room":"{room}","from":"~yw:x","data":{data}}}"#);
            clients[1 - number].input(now, Input::Mesh(text.as_bytes()));
        }
        _ => {}
    }
    clients[number].input(now, Input::Mesh(format!(r#"{{"type":"ack","id":{id}}}"#).as_bytes()));
}

proptest! {
    #[test]
    fn two_subscribers_meet_despite_refusals(
        schedule in prop::collection::vec((0_usize..2, any::<bool>(), 0_u64..200), 0..60),
        second_starts_at in 0_usize..20,
    ) {
        let mut now = Instant::now();
        let mut clients = [Client::new(1), Client::new(2)];
        let start = |client: &mut Client, now, announce: &str| {
            client.input(now, Input::Text(br#"{"type":"subscribe","topics":["t"]}"#));
            let text = format!(r#"{{"type":"publish","topic":"t","data":"{announce}"}}"#);
            client.input(now, Input::Text(text.as_bytes()));
        };
        start(&mut clients[0], now, "of-0");
        // The tail executes all that is left.
        let tail = (0..40).map(|step| (step % 2, false, 200));
        for (step, (number, refuse, ms)) in schedule.into_iter().chain(tail).enumerate() {
            if step == second_starts_at {
                start(&mut clients[1], now, "of-1");
            }
            now += Duration::from_millis(ms);
            clients.iter_mut().for_each(|client| client.input(now, Input::Tick));
            execute(&mut clients, now, number, refuse);
        }
        prop_assert!(clients.iter().all(|client| client.requests.is_empty() && client.translator.deadline().is_none()));
        let met = [clients[0].received("of-1"), clients[1].received("of-0")];
        prop_assert!(met.iter().sum::<usize>() >= 1, "they have not met");
        prop_assert!(met.iter().all(|count| *count <= 1), "an announce has arrived twice");
    }
}
