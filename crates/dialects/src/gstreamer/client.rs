//! Messages of a `GStreamer` client. The parent module and `room` pass them.

use std::time::Instant;

use serde_json::value::RawValue;
use signaling_protocol::limits::MAX_MEMBER_DATA_BYTES;

use super::sessions::Part;
use super::status::{Role, Status};
use super::{GStreamer, or_null};
use crate::event::IgnoredReason;
use crate::json::{Object, quote, string};
use crate::name;
use crate::translator::Out;

/// Reason why a message has no effect.
pub(super) enum Refusal {
    /// The client gets no answer.
    Ignored(IgnoredReason),
    /// The client gets this error.
    Error(String),
}

impl From<IgnoredReason> for Refusal {
    fn from(reason: IgnoredReason) -> Self {
        Self::Ignored(reason)
    }
}

/// Returns an optional text as JSON, or `null`. Fails if the field is no text.
fn optional_text<'a>(message: &Object<'a>, field: &str) -> Result<&'a str, IgnoredReason> {
    match message.get(field) {
        Some(value) if value.get() != "null" && string(value).is_none() => Err(IgnoredReason::Field),
        value => Ok(or_null(value)),
    }
}

impl GStreamer {
    /// Handles a client's message. One without effect counts as ignored, or gets an error.
    pub(super) fn client(&mut self, now: Instant, text: &[u8], out: &mut Out) {
        match self.handle(now, text, out) {
            Err(Refusal::Ignored(reason)) => return out.ignore(reason),
            Err(Refusal::Error(details)) => self.error(&details, out),
            Ok(()) => {}
        }
        self.has_spoken = true;
    }

    fn handle(&mut self, now: Instant, text: &[u8], out: &mut Out) -> Result<(), Refusal> {
        // Upstream ignores a message with a repeated field.
        let message = Object::parse_unique(text).ok_or(IgnoredReason::Json)?;
        match &*message.string("type").unwrap_or_default() {
            "setProtocolVersion" => self.set_version(&message),
            "setPeerStatus" => self.set_status(now, &message, out),
            "list" => {
                let producers = self.members.list(Role::Producer, (self.own, self.present_status()));
                out.frames.push(format!(r#"{{"type":"list","producers":{producers}}}"#));
                Ok(())
            }
            "listConsumers" => {
                let consumers = self.members.list(Role::Consumer, (self.own, self.present_status()));
                out.frames.push(format!(r#"{{"type":"listConsumers","consumers":{consumers}}}"#));
                Ok(())
            }
            "startSession" => self.start_session(now, &message, out),
            "peer" => self.relay(&message, out),
            "endSession" => self.end_session(&message, "null", out),
            "endSessionV1_1" => self.end_session(&message, optional_text(&message, "error")?, out),
            _ => Err(IgnoredReason::Type.into()),
        }
    }

    fn set_version(&mut self, message: &Object<'_>) -> Result<(), Refusal> {
        let has_v1_1 = match &*message.string("version").unwrap_or_default() {
            "v1_0" => false,
            "v1_1" => true,
            _ => return Err(IgnoredReason::Field.into()),
        };
        if self.has_spoken {
            let details = format!("Protocol version selection for peer '{}' must be first message", self.own);
            return Err(Refusal::Error(details));
        }
        self.has_v1_1 = has_v1_1;
        Ok(())
    }

    fn set_status(&mut self, now: Instant, message: &Object<'_>, out: &mut Out) -> Result<(), Refusal> {
        let former = self.present_status();
        let status = Status::of_message(message, former.number + 1)?;
        let peer_id = optional_text(message, "peerId")?;
        // Upstream compares with the former message, in which the server has set the id.
        let former_id = if former.number > 0 { quote(&self.own.to_string()) } else { "null".to_owned() };
        if status.roles == former.roles && status.meta == former.meta && peer_id == former_id {
            return Ok(());
        }
        if status.has(Role::Producer) && status.has(Role::Consumer) {
            let details = format!("Cannot register peer {} as both producer and passive consumer", self.own);
            return Err(Refusal::Error(details));
        }
        if status.to_data().len() > MAX_MEMBER_DATA_BYTES {
            let details = format!("The status of peer {} has over {MAX_MEMBER_DATA_BYTES} bytes", self.own);
            return Err(Refusal::Error(details));
        }
        let ended = match (former.has(Role::Producer), former.has(Role::Consumer)) {
            (true, _) if !status.has(Role::Producer) => Some(Part::Producer),
            (false, true) if !status.has(Role::Consumer) => Some(Part::Consumer),
            _ => None,
        };
        if !self.enter(now, status, out) {
            return Err(IgnoredReason::Limit.into());
        }
        for (id, session) in self.sessions.remove_if(|session| Some(session.part) == ended) {
            self.send_end(id, session.partner, "null", out);
        }
        Ok(())
    }

    fn start_session(&mut self, now: Instant, message: &Object<'_>, out: &mut Out) -> Result<(), Refusal> {
        let peer_id = message.string("peerId").ok_or(IgnoredReason::Field)?;
        let offer = optional_text(message, "offer")?;
        let Some(peer) = name::parse_uuid(&peer_id) else { return Err(Refusal::Error(Self::not_found(&*peer_id))) };
        if peer == self.own {
            let roles = &self.present_status().roles;
            return Err(Refusal::Error(Self::no_roles((peer, roles), (peer, roles))));
        }
        if self.sessions.is_full() {
            return Err(Refusal::Error(Self::too_many_sessions(self.own)));
        }
        self.ask(now, peer, offer, out);
        Ok(())
    }

    fn relay(&mut self, message: &Object<'_>, out: &mut Out) -> Result<(), Refusal> {
        let id = message.string("sessionId").ok_or(IgnoredReason::Field)?;
        let (field, content, is_offer) = match (message.get("sdp"), message.get("ice")) {
            (Some(sdp), _) => description(sdp).map(|(sdp, is_offer)| ("sdp", sdp, is_offer)),
            (None, Some(ice)) => candidate(ice).map(|ice| ("ice", ice, false)),
            (None, None) => None,
        }
        .ok_or(IgnoredReason::Field)?;
        let (id, session) = self.open_session(&id)?;
        if is_offer && session.part == Part::Consumer {
            let (own, partner) = (self.own, session.partner);
            let reason = format!(r#"as "{own}" is not the producer"#);
            return Err(Refusal::Error(format!(r#"cannot forward offer from "{own}" to "{partner}" {reason}"#)));
        }
        self.send_peer(id, session.partner, field, &content, out);
        Ok(())
    }

    fn end_session(&mut self, message: &Object<'_>, error: &str, out: &mut Out) -> Result<(), Refusal> {
        let id = message.string("sessionId").ok_or(IgnoredReason::Field)?;
        let (id, session) = self.open_session(&id)?;
        if error != "null" && !self.has_v1_1 {
            let rule = "minimum protocol version is 1.1";
            let details = format!("Invalid end session message with error from peer '{}', {rule}", self.own);
            return Err(Refusal::Error(details));
        }
        self.sessions.by_id.remove(&id);
        self.send_end(id, session.partner, error, out);
        Ok(())
    }
}

/// Returns a session description without further fields, and whether it is an offer.
fn description(sdp: &RawValue) -> Option<(String, bool)> {
    let object = Object::parse_unique(sdp.get().as_bytes())?;
    let kind = object.string("type").filter(|kind| *kind == "offer" || *kind == "answer")?;
    let sdp = object.get("sdp").filter(|sdp| string(sdp).is_some())?;
    Some((format!(r#"{{"type":"{kind}","sdp":{sdp}}}"#), kind == "offer"))
}

/// Returns an ICE candidate without further fields.
fn candidate(ice: &RawValue) -> Option<String> {
    let object = Object::parse_unique(ice.get().as_bytes())?;
    let candidate = object.get("candidate").filter(|candidate| string(candidate).is_some())?;
    let index: u32 = object.get("sdpMLineIndex")?.get().parse().ok()?;
    Some(format!(r#"{{"candidate":{candidate},"sdpMLineIndex":{index}}}"#))
}
