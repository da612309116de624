//! Refuses messages and control frames above a client's rate, and reads a client more slowly that
//! goes on.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use signaling_protocol::client::{self, EdgeMessage};
use signaling_protocol::server::write_rate_tail;
use signaling_protocol::{CloseCode, ErrorCode};

use super::rate_limiter::{Exceeded, RateDecision, RateLimits};
use super::session::Session;
use super::{ClientKey, EdgeCore, Reading, Settings, VerifiedToken};
use signaling_wire::rate::whole_ms;

/// Returns the maximum rates of a client: those of its token's class, or the usual ones.
pub(super) fn limits_of<'a>(settings: &'a Settings, token: Option<&VerifiedToken>) -> &'a RateLimits {
    let class = token.and_then(|token| token.rate_class.as_ref());
    class.and_then(|class| settings.rate_classes.get(class)).unwrap_or(&settings.rates)
}

/// Adds the client's rates to its `welcome`. Translators of dialects pace their clients.
pub(super) fn add_rate(welcome: &mut Cow<'_, [u8]>, session: &Session, settings: &Settings, now: Instant) {
    if session.dialect.is_none() && welcome.ends_with(b"}") {
        let limits = limits_of(settings, session.token.as_deref());
        let welcome = welcome.to_mut();
        welcome.pop();
        write_rate_tail(welcome, &session.rate_buckets.client_rate(limits, now));
    }
}

impl EdgeCore {
    /// Refuses a message that exceeds the rate. Returns `None` if the rate allows the message.
    pub(super) fn refuse_flood(
        &mut self,
        now: Instant,
        client: ClientKey,
        message: EdgeMessage,
        text: &[u8],
    ) -> Option<Reading> {
        if message == EdgeMessage::Ping {
            let reading = self.take_control(now, client);
            return (reading == Reading::Paused).then_some(reading);
        }
        let session = self.sessions.get_mut(client)?;
        let limits = limits_of(&self.settings, session.token.as_deref());
        match session.refusals.message(&session.rate_buckets, limits, now, text.len()) {
            RateDecision::Pass => None,
            // `received` frees memory, so it always counts.
            RateDecision::Wait(..) if matches!(message, EdgeMessage::Received { .. }) => None,
            RateDecision::Wait(limit, wait) => {
                session.read_at = session.rate_buckets.pay_refusal(now).map(|wait| now + wait);
                let reading = self.too_fast(client, text, limit, wait);
                Some(if reading == Reading::On { self.pause_if_full(now, client) } else { reading })
            }
            RateDecision::Abuse => {
                self.counts.rate_abuses += 1;
                self.close(client, CloseCode::RATE_ABUSE, "you ignored refusals and kept exceeding your rate");
                Some(Reading::Paused)
            }
        }
    }

    /// Counts a control frame of the client. Closes the socket if there are too many.
    pub(super) fn take_control(&mut self, now: Instant, client: ClientKey) -> Reading {
        let Some(session) = self.sessions.get(client) else { return Reading::Paused };
        let limits = limits_of(&self.settings, session.token.as_deref());
        if session.rate_buckets.take_control(limits, now) { Reading::On } else { self.too_many_controls(client) }
    }

    fn too_many_controls(&mut self, client: ClientKey) -> Reading {
        self.counts.rate_abuses += 1;
        self.close(client, CloseCode::POLICY, "you send pings or pongs too often");
        Reading::Paused
    }

    /// Refuses a message, which is not kept.
    fn too_fast(&mut self, client: ClientKey, text: &[u8], limit: Exceeded, wait: Duration) -> Reading {
        let (count, message) = match limit {
            Exceeded::Messages => (&mut self.counts.over_message_rate, "too many messages"),
            Exceeded::Bytes => (&mut self.counts.over_byte_rate, "too many bytes"),
        };
        *count += 1;
        self.write_error(client, (ErrorCode::RateLimited, message), client::names(text), Some(whole_ms(wait)))
    }
}
