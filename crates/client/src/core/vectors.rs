//! Runs `vectors/*.json`, which SDKs in other languages share.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Core, Effect, Moment, Ms, Outcome, Request, RoomChange, to_json};
use crate::ending::{Ending, Fault};
use crate::event::{Broadcast, Event, Signal, State};
use crate::options::{Limits, Token};
use crate::outcome::{Refusal, RequestError, SendError};

#[test]
fn client_follows_every_vector() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/vectors")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            run(&path);
        }
    }
}

fn run(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let mut steps_run = 0;
    for case in file["cases"].as_array().unwrap() {
        if case["for"] == "web" {
            continue;
        }
        let none = [Value::Null];
        for each in case["each"].as_array().map_or(&none[..], Vec::as_slice) {
            let steps = put_each(&case["steps"], each);
            let mut client = client(&case["options"]);
            for step in steps.as_array().unwrap() {
                take(&mut client, step, &format!("{}: {}, {each}, at {}", path.display(), case["name"], step["at"]));
                steps_run += 1;
            }
        }
    }
    assert!(steps_run > 0, "{}", path.display());
}

fn client(options: &Value) -> Core {
    let default = Limits::default();
    let limits = Limits {
        queue: options["queue"].as_u64().map_or(default.queue, |queue| queue as usize),
        queue_bytes: options["queue_bytes"].as_u64().map_or(default.queue_bytes, |bytes| bytes as usize),
        timeout: options["timeout_ms"].as_u64().unwrap_or(default.timeout),
    };
    let urls = options["urls"].as_u64().unwrap_or(1) as usize;
    let mut client = Core::new("me", urls, options["tokens"] == true, limits);
    if !options["session"].is_null() {
        client.restore(serde_json::from_str(&options["session"].to_string()).unwrap());
    }
    client
}

fn take(client: &mut Core, step: &Value, what: &str) {
    let at = Moment { now: step["at"].as_u64().unwrap(), random: step["random"].as_f64().unwrap_or(0.5) };
    let mut out = Vec::new();
    for number in 1..=step["times"].as_u64().unwrap_or(1) {
        let error = input(client, at, &put_number(&step["in"], number), &mut out);
        assert_eq!(error, step["error"].as_str(), "{what}");
    }
    let effects = client.take_effects();
    // The API also reports the messages that the effects of rooms are made from.
    let effects: Vec<Value> = effects.iter().filter(|effect| !is_room_event(effect)).map(effect).collect();
    let got: Vec<Value> = effects.into_iter().chain(out).collect();
    if step["out"] != "any" {
        let expected: Vec<Value> = step["out"].as_array().unwrap().iter().flat_map(repeated).collect();
        assert_eq!(json!(got), json!(expected), "{what}");
    }
    if let Some(next) = step.get("next") {
        assert_eq!(client.deadline(), next.as_u64(), "{what}: the next tick");
    }
}

fn input(client: &mut Core, at: Moment, input: &Value, out: &mut Vec<Value>) -> Option<&'static str> {
    if let Some(word) = input.as_str() {
        match word {
            "start" => client.start(at.now),
            "tick" => client.tick(at),
            "network_changed" => client.network_changed(at),
            "close" => client.close(),
            "opened" => client.opened(),
            "detach" => out.push(json!({ "saved": client.detach().unwrap() })),
            "ice_servers" => return error(client.ice_servers()),
            other => panic!("{other}"),
        }
        return None;
    }
    let (word, fields) = input.as_object().unwrap().iter().next().unwrap();
    let text = |field: &str| fields[field].as_str().unwrap().to_owned();
    let data = || to_json(&filled(&fields["data"])).unwrap();
    let mut request = |request| error(client.request(at.now, request));
    match word.as_str() {
        "members" => return error(client.members(&text("room"), fields["after"].as_str())),
        "signal" => {
            return request(Request::Signal { to: text("to"), data: data(), ttl_ms: fields["ttl_ms"].as_u64() });
        }
        "join" => return request(Request::Join { room: text("room"), data: fields.get("data").map(|_| data()) }),
        "leave" => return request(Request::Leave { room: text("room") }),
        "broadcast" => return request(Request::Broadcast { room: text("room"), data: data() }),
        "text" => client.text(at, &fields.to_string()),
        "raw" => client.text(at, fields.as_str().unwrap()),
        "lost" => client.lost(at, ending(fields)),
        "refused" => {
            let status = fields["status"].as_u64().unwrap() as u16;
            client.refused(at, status, reason(fields), fields["retry_after_ms"].as_u64());
        }
        "cancel" => {
            client.cancel(fields.as_u64().unwrap());
        }
        "token" => {
            let valid_for = fields["valid_ms"].as_u64().map(Duration::from_millis);
            client.token(at.now, Token { text: text("token"), valid_for });
        }
        "token_failed" => client.token_failed(at),
        other => panic!("{other}"),
    }
    None
}

fn error<T>(taken: Result<T, SendError>) -> Option<&'static str> {
    Some(match taken.err()? {
        SendError::QueueFull => "queue_full",
        SendError::TooLarge { .. } => "too_large",
        SendError::BadName { .. } => "bad_name",
        SendError::NotJson(_) => "not_json",
        SendError::NotConnected => "not_connected",
        SendError::TooManyRooms => "too_many_rooms",
        SendError::Closed => "closed",
    })
}

fn ending(lost: &Value) -> Ending {
    match lost["code"].as_u64() {
        Some(code) => Ending::Closed { code: code as u16, reason: reason(lost) },
        None => Ending::Fault(Fault::Unreachable),
    }
}

fn reason(end: &Value) -> String {
    filled(&end["reason"]).as_str().unwrap_or_default().to_owned()
}

fn is_room_event(effect: &Effect) -> bool {
    use Event::{Joined, Left, MembersChanged, Waiting};
    matches!(effect, Effect::Emit(Joined(_) | Waiting { .. } | MembersChanged { .. } | Left { .. }))
}

fn room_change(room: &str, change: &RoomChange) -> Value {
    let member = |id: &str, data| json!({ "id": id, "data": data });
    let mut effect = match change {
        RoomChange::Out { reason } => json!({ "room_state": "out", "reason": reason }),
        RoomChange::Joining { reason } => with(json!({ "room_state": "joining" }), "reason", reason),
        RoomChange::Waiting { ahead, queue_length } => {
            json!({ "room_state": "waiting", "ahead": ahead, "queue_length": queue_length })
        }
        RoomChange::Member { capacity, count } => {
            json!({ "room_state": "member", "capacity": capacity, "count": count })
        }
        RoomChange::MemberJoined(id, data) => json!({ "member_joined": member(id, data) }),
        RoomChange::MemberUpdated(id, data) => json!({ "member_updated": member(id, data) }),
        RoomChange::MemberLeft(id, data, reason) => json!({ "member_left": member(id, data), "reason": reason }),
    };
    effect["room"] = json!(room);
    effect
}

fn effect(effect: &Effect) -> Value {
    match effect {
        Effect::Open { url, resume, token } => {
            json!({ "open": with(with(json!({ "url": url }), "resume", resume), "token", token) })
        }
        Effect::Drop => json!("drop"),
        Effect::Close => json!({ "close": 1000 }),
        Effect::Write(text) => json!({ "write": serde_json::from_str::<Value>(text).unwrap() }),
        Effect::FetchToken => json!("ask_token"),
        Effect::Settle(ticket, outcome) => settled(*ticket, outcome),
        Effect::Room { room, change } => room_change(room, change),
        Effect::Emit(Event::State(state)) => self::state(state),
        Effect::Emit(event) => json!({ "event": event_fields(event) }),
    }
}

fn settled(ticket: u64, outcome: &Outcome) -> Value {
    let outcome = match outcome {
        Ok(delivered) => return with(json!({ "settle": ticket, "as": "delivered" }), "count", &delivered.members),
        Err(RequestError::Refused(Refusal { code, message, retry_after })) => {
            let wait = retry_after.map(|time| time.as_millis() as Ms);
            with(json!({ "refused": code, "message": message }), "retry_after_ms", &wait)
        }
        Err(RequestError::Expired { sent }) => json!({ "expired": { "sent": sent } }),
        Err(RequestError::Closed) => json!("closed"),
    };
    json!({ "settle": ticket, "as": outcome })
}

fn state(state: &State) -> Value {
    match state {
        State::Connecting { url } => json!({ "state": "connecting", "url": url }),
        State::Connected(welcome) => json!({ "state": "connected", "resumed": welcome.resumed }),
        State::Waiting { retry_in, why } => {
            because(json!({ "state": "waiting", "in_ms": retry_in.as_millis() as Ms }), Some(why))
        }
        State::Closed { why } => because(json!({ "state": "closed" }), why.as_ref()),
    }
}

fn because(mut state: Value, why: Option<&Ending>) -> Value {
    if let Some(Ending::Closed { reason, .. } | Ending::Refused { reason, .. }) = why
        && !reason.is_empty()
    {
        state["reason"] = json!(reason);
    }
    match why {
        None => {}
        Some(Ending::Closed { code, .. }) => state["code"] = json!(code),
        Some(Ending::Refused { status, .. }) => state["status"] = json!(status),
        Some(Ending::Fault(fault)) => {
            state["fault"] = json!(match fault {
                Fault::Unreachable => "unreachable",
                Fault::NoWelcome => "no_welcome",
                Fault::Silent => "silent",
                Fault::ProtocolError => "protocol_error",
                Fault::NoToken => "no_token",
            });
        }
    }
    state
}

fn event_fields(event: &Event) -> Value {
    match event {
        Event::Signal(Signal { from, data, id }) => {
            with(json!({ "type": "signal", "from": from, "data": data }), "id", id)
        }
        Event::Broadcast(Broadcast { room, from, data, id }) => {
            with(json!({ "type": "broadcast", "room": room, "from": from, "data": data }), "id", id)
        }
        Event::IceServers(_) => json!({ "type": "ice_servers" }),
        Event::Moved { node } => json!({ "type": "moved", "node": node }),
        Event::Problem(Refusal { code, message, retry_after }) => {
            let retry_after_ms = retry_after.map(|time| time.as_millis() as Ms);
            with(json!({ "type": "error", "code": code, "message": message }), "retry_after_ms", &retry_after_ms)
        }
        other => panic!("{other:?}"),
    }
}

fn with<T: serde::Serialize>(mut object: Value, field: &str, value: &Option<T>) -> Value {
    if let Some(value) = value {
        object[field] = json!(value);
    }
    object
}

fn filled(data: &Value) -> Value {
    data["fill"].as_u64().map_or_else(|| data.clone(), |bytes| json!("x".repeat(bytes as usize)))
}

fn repeated(out: &Value) -> Vec<Value> {
    let Some(times) = out["times"].as_u64() else { return vec![expected(out)] };
    let mut once = out.clone();
    once.as_object_mut().unwrap().remove("times");
    (1..=times).map(|number| expected(&put_number(&once, number))).collect()
}

fn expected(out: &Value) -> Value {
    let mut out = out.clone();
    for place in ["/write/data", "/reason"] {
        if let Some(text) = out.pointer_mut(place) {
            *text = filled(text);
        }
    }
    // The list itself passes unchanged.
    if let Some(event) = out.pointer_mut("/event").filter(|event| event["type"] == "ice_servers") {
        *event = json!({ "type": "ice_servers" });
    }
    out
}

fn put_number(value: &Value, number: u64) -> Value {
    replace(value, &|text| {
        if text == "$i" { json!(number) } else { json!(text.replace("$i", &number.to_string())) }
    })
}

fn put_each(value: &Value, each: &Value) -> Value {
    replace(value, &|text| match text.strip_prefix("$each") {
        Some("") => each.clone(),
        Some(at) => each[at.trim_start_matches('.').parse::<usize>().unwrap()].clone(),
        None => json!(text),
    })
}

fn replace(value: &Value, with: &dyn Fn(&str) -> Value) -> Value {
    match value {
        Value::String(text) => with(text),
        Value::Array(items) => items.iter().map(|item| replace(item, with)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), replace(value, with))).collect(),
        other => other.clone(),
    }
}
