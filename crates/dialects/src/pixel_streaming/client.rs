//! Messages of a streamer, an SFU or a player. The translator passes them.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::claim::MAX_USED_ID_BYTES;
use super::envelope::Envelope;
use super::mesh::{Context, players_room};
use super::subscription::refuse;
use super::{HOLD_MS, Role, State};
use crate::event::IgnoredReason;
use crate::json::Object;
use crate::translator::MAX_REASON_BYTES;

impl State {
    /// Handles a message of the client. Counts it as ignored if it is no JSON object, lacks a
    /// field, or has a type that is unknown for the role. Also if its recipient is unknown, or too
    /// many messages wait.
    pub(super) fn client(&mut self, context: &mut Context<'_>, text: &[u8]) {
        let object = Object::parse(text).ok_or(IgnoredReason::Json);
        let handled = object.and_then(|message| self.message(context, &message, str::from_utf8(text).unwrap_or("")));
        if let Err(reason) = handled {
            context.out.ignore(reason);
        }
    }

    fn message(&mut self, context: &mut Context<'_>, message: &Object<'_>, text: &str) -> Result<(), IgnoredReason> {
        use Role::{Player, Sfu, Streamer};
        match (context.role, &*message.string("type").unwrap_or_default()) {
            (_, "ping") => {
                let time = message.get("time").map(RawValue::get).filter(|time| time.parse::<f64>().is_ok());
                context.out.frames.push(format!(r#"{{"type":"pong","time":{}}}"#, time.unwrap_or("0")));
            }
            (_, "stats" | "playerCount" | "startStreaming") => {}
            (Streamer | Sfu, "endpointId") => {
                let id = message.string("id").unwrap_or_default();
                self.id.request(context, &mut self.players, &id);
            }
            (Streamer, "offer" | "answer" | "iceCandidate") => self.to_player(context, message, text.trim())?,
            (Sfu, "offer" | "peerDataChannels") => {
                self.to_player(context, message, &message.to_text("playerId", None))?;
            }
            (Streamer, "disconnectPlayer") => self.disconnect_player(context, message)?,
            (Sfu, "stopStreaming") => self.id.restart(context, &mut self.players),
            (Player | Sfu, "listStreamers") => self.listing.request(context, true),
            (Player | Sfu, "subscribe" | "unsubscribe" | "answer")
            | (Player, "offer" | "iceCandidate" | "dataChannelRequest" | "peerDataChannelsReady" | "layerPreference")
            | (Sfu, "streamerDataChannels")
                if self.subscription.is_undecided() =>
            {
                self.subscription.hold(context, text);
            }
            (Player | Sfu, "subscribe") => self.subscribe(context, message),
            (Player | Sfu, "unsubscribe") => self.subscription.unsubscribe(context),
            (Player, "offer" | "iceCandidate" | "dataChannelRequest" | "peerDataChannelsReady" | "layerPreference")
            | (Player | Sfu, "answer") => {
                let message = message.to_text("playerId", Some(&player_field(context, "playerId")));
                self.relay(context, &message, text)?;
            }
            (Sfu, "streamerDataChannels") => {
                let has_player = message.string("playerId").is_some_and(|id| !id.is_empty());
                let mut message = message.to_text("sfuId", Some(&player_field(context, "sfuId")));
                if let Some(object) = Object::parse(message.as_bytes()).filter(|_| !has_player) {
                    message = object.to_text("playerId", Some(&player_field(context, "playerId")));
                }
                self.relay(context, &message, text)?;
            }
            _ => return Err(IgnoredReason::Type),
        }
        Ok(())
    }

    /// Sends the text `sent` to the client's player that `message` names.
    fn to_player(&self, context: &mut Context<'_>, message: &Object<'_>, sent: &str) -> Result<(), IgnoredReason> {
        let player_id = message.string("playerId").ok_or(IgnoredReason::Field)?;
        let (player, subscription) = self.players.get(&player_id).ok_or(IgnoredReason::UnknownPeer)?;
        context.send(player, &Envelope::Message { subscription, message: sent }, HOLD_MS);
        Ok(())
    }

    fn disconnect_player(&self, context: &mut Context<'_>, message: &Object<'_>) -> Result<(), IgnoredReason> {
        let player_id = message.string("playerId").ok_or(IgnoredReason::Field)?;
        let (player, subscription) = self.players.get(&player_id).ok_or(IgnoredReason::UnknownPeer)?;
        let reason = message.string("reason").unwrap_or_default();
        let reason = Cow::Borrowed(first_bytes(&reason, MAX_REASON_BYTES));
        context.send(player, &Envelope::Close { subscription, reason }, HOLD_MS);
        Ok(())
    }

    fn subscribe(&mut self, context: &mut Context<'_>, message: &Object<'_>) {
        let id = message.string("streamerId");
        let written = message.get("streamerId").map_or("undefined", RawValue::get);
        let shown = first_bytes(id.as_deref().unwrap_or(written), MAX_USED_ID_BYTES);
        let is_own = |id: &str| self.id.is_in(context.own, &players_room(id));
        match id.as_deref().filter(|id| id.len() <= MAX_USED_ID_BYTES && !is_own(id)) {
            Some(id) => self.subscription.begin(context, id, shown, false),
            None => refuse(context, &format!("Streamer {shown} does not exist.")),
        }
    }

    /// Sends a message to the client's streamer. `text`: as the client wrote it. A player without
    /// one is subscribed to the first streamer of the list, and the message waits. An SFU's fails.
    fn relay(&mut self, context: &mut Context<'_>, message: &str, text: &str) -> Result<(), IgnoredReason> {
        match self.subscription.current() {
            Some((streamer, subscription)) => {
                context.send(streamer, &Envelope::Message { subscription, message }, HOLD_MS);
            }
            None if context.role == Role::Player => {
                self.subscription.needs_list = true;
                self.subscription.hold(context, text);
                self.listing.request(context, false);
            }
            None => return Err(IgnoredReason::UnknownPeer),
        }
        Ok(())
    }
}

/// Returns a field with the client's own `playerId`.
fn player_field(context: &Context<'_>, name: &str) -> String {
    format!(r#""{name}":"{}""#, context.own.player_id())
}

/// Returns the first characters of a text, in at most `max` bytes.
fn first_bytes(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}
