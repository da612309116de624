//! Periodic work on a timer of the shell: heartbeats, stuck sockets, expired tokens, memory.

use std::time::{Duration, Instant};

use signaling_dialects::Input;
use signaling_protocol::CloseCode;

use super::inputs::list_output;
use super::phase::SessionPhase;
use super::{ClientKey, EdgeCore, Effect, Figures};
use crate::ws::encode;

/// Interval at which the shell calls [`EdgeCore::sweep`].
pub const INTERVAL: Duration = Duration::from_millis(500);
/// Interval of `pong`s to a client that is not read, so that it keeps the socket open.
const PAUSED_PONG: Duration = Duration::from_secs(5);

impl EdgeCore {
    /// Restarts the limits of silence and of unwritten output after a pause of this process. The
    /// limits of `received` go on: two sweeps must find a client late.
    pub fn on_process_pause(&mut self, now: Instant) {
        for session in self.sessions.values_mut() {
            session.heard = now;
            session.pinged = None;
            session.output.on_process_pause(now);
            if let Some(proof) = &mut session.proof {
                proof.on_process_pause(now);
            }
        }
    }

    /// Checks every session once: pings silent clients, and closes sockets past their limits.
    /// Replaces the [`Figures`] and the estimate of kept bytes.
    pub fn sweep(&mut self, now: Instant) {
        let mut closing: Vec<(ClientKey, CloseCode, &str)> = Vec::new();
        let mut due = Vec::new();
        let Self { sessions, settings, pool, clients_with_output, memory, effects, .. } = self;
        let is_short = memory.is_short(settings.max_memory_bytes);
        let (mut kept, mut freed) = (0, Vec::new());
        let mut figures = Figures::default();
        for (client, session) in sessions.iter_mut() {
            kept += session.kept();
            figures.unattached += usize::from(session.uplink().is_none());
            figures.read_paused += usize::from(session.phase.is_paused());
            let SessionPhase::Open { paused, .. } = session.phase else { continue };
            if session.token.as_ref().is_some_and(|token| token.expires.is_some_and(|expires| expires <= now)) {
                closing.push((client, CloseCode::TOKEN_EXPIRED, "your token has expired; come back with a new one"));
                continue;
            }
            if let Some(proof) = &session.proof {
                closing.extend(proof.overdue(now).map(|(code, reason)| (client, code, reason)));
                continue;
            }
            if let Some(dialect) = &session.dialect {
                figures.dialect_sockets[dialect.dialect as usize] += 1;
                if dialect.is_due(now) {
                    due.push(client);
                }
            }
            if is_short {
                freed.push((session.freed_by_close(), client));
            }
            session.buffer.tidy();
            session.deduplicator.forget_idle(&settings.dedup, now, session.hold);
            // After the hold time, senders get `recipient_unavailable` for the queued messages.
            let longest = session.hold.max(settings.write_timeout);
            if session.output.is_stuck(now, settings.write_timeout) || session.output.lags(now, longest) {
                closing.push((client, CloseCode::TOO_SLOW, "you have read nothing for too long"));
                continue;
            }
            if session.received.as_mut().is_some_and(|tracker| tracker.is_late(now, settings.receipt_timeout, longest))
            {
                closing.push((client, CloseCode::TOO_SLOW, "you have sent no `received` for too long"));
                continue;
            }
            match session.pinged {
                // Its bytes are unread, so its silence means nothing.
                _ if paused => {
                    if !session.must_wait(now, &memory.retransmit_limits(settings)) {
                        // The pause was caused by a lack of memory or a rate, which has ended.
                        session.phase.set_paused(false);
                        effects.push_back(Effect::Read(client));
                    }
                    session.heard = now;
                    session.received.iter_mut().for_each(|tracker| tracker.not_read(now));
                    if now.saturating_duration_since(session.last_pong) >= PAUSED_PONG {
                        session.last_pong = now;
                        if let Some(frame) = session.paused_frame() {
                            session.output.append(pool, |out| encode::text(out, &frame));
                            list_output(clients_with_output, client, session);
                        }
                    }
                }
                Some(at) if now.saturating_duration_since(at) >= settings.heartbeat_answer => {
                    closing.push((client, CloseCode::HEARTBEAT_MISSED, "no answer to a ping"));
                }
                None if now.saturating_duration_since(session.heard) >= settings.heartbeat => {
                    session.pinged = Some(now);
                    session.ping(pool);
                    list_output(clients_with_output, client, session);
                }
                _ => {}
            }
        }
        memory.set(kept);
        self.links.values_mut().for_each(|link| link.beat(now, &self.counter));
        self.rate_buckets.sweep(now);
        self.figures = figures;
        let evicted = memory.evict(settings.max_memory_bytes, freed);
        for client in due {
            self.translate(now, client, Input::Tick);
        }
        for (client, code, reason) in closing {
            self.counts.expired_tokens += u64::from(code == CloseCode::TOKEN_EXPIRED);
            self.close(client, code, reason);
        }
        for client in evicted {
            self.counts.evicted += 1;
            self.close(client, CloseCode::TOO_SLOW, "memory is short, and you have much unread output or many rooms");
        }
    }
}
