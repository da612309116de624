//! What time alone brings: heartbeats, sockets that take nothing, tokens that expire, filters that can forget.

use std::time::{Duration, Instant};

use signaling_protocol::CloseCode;
use signaling_protocol::server::ServerMessage;

use super::inputs::list_output;
use super::phase::SessionPhase;
use super::session::Attachment;
use super::{ClientKey, EdgeCore, Effect, Figures};
use crate::ws::encode;

/// How often [`EdgeCore::sweep`] wants to be called: what it looks at is due within seconds.
pub const INTERVAL: Duration = Duration::from_millis(500);
/// A client that is not read gets a `pong` this often, so that it does not take the socket for dead.
const PAUSED_PONG: Duration = Duration::from_secs(5);

impl EdgeCore {
    /// This server did nothing for a while: clients had no chance to show life meanwhile, nor to take what they were sent.
    pub fn jumped(&mut self, now: Instant) {
        for session in self.sessions.values_mut() {
            session.heard = now;
            session.pinged = None;
            session.output.jumped(now);
        }
    }

    /// Looks at every session once.
    pub fn sweep(&mut self, now: Instant) {
        let mut closing: Vec<(ClientKey, CloseCode, &str)> = Vec::new();
        let Self { sessions, settings, pool, clients_with_output, memory, effects, .. } = self;
        let is_short = memory.is_short(settings.memory);
        let (mut kept, mut unwritten) = (0, Vec::new());
        let mut figures = Figures::default();
        for (client, session) in sessions.iter_mut() {
            kept += session.kept();
            figures.moving += usize::from(!matches!(session.attachment, Attachment::Attached { .. }));
            figures.paused += usize::from(session.phase.is_paused());
            let SessionPhase::Open { paused, .. } = session.phase else { continue };
            if session.proven.as_ref().is_some_and(|proven| proven.expires.is_some_and(|expires| expires <= now)) {
                closing.push((client, CloseCode::TOKEN_EXPIRED, "your token has expired; come back with a new one"));
                continue;
            }
            if is_short {
                unwritten.push((session.output.capacity(), client));
            }
            session.store.tidy();
            if !session.filter.is_empty() {
                session.filter.forget_idle(&settings.filter, now, session.hold);
            }
            // Past the hold time senders are told that what waits was not delivered.
            let longest = session.hold.max(settings.write_timeout);
            if session.output.is_stuck(now, settings.write_timeout) || session.output.lags(now, longest) {
                closing.push((client, CloseCode::TOO_SLOW, "you have read nothing for too long"));
                continue;
            }
            if session
                .receipts
                .as_mut()
                .is_some_and(|receipts| receipts.is_late(now, settings.receipt_timeout, longest))
            {
                closing.push((client, CloseCode::TOO_SLOW, "you have not said `received` for too long"));
                continue;
            }
            match session.pinged {
                // Its bytes wait unread in the kernel: silence says nothing.
                _ if paused => {
                    if !session.store.is_full(&memory.store_limits(settings.memory, settings.store)) {
                        // Memory was short, and is not any more.
                        session.phase.set_paused(false);
                        effects.push_back(Effect::Read(client));
                    }
                    session.heard = now;
                    session.receipts.iter_mut().for_each(|receipts| receipts.not_read(now));
                    if now.saturating_duration_since(session.last_pong) >= PAUSED_PONG {
                        session.last_pong = now;
                        let pong = ServerMessage::Pong.to_json();
                        session.output.append(pool, |out| encode::text(out, &pong));
                        list_output(clients_with_output, client, session);
                    }
                }
                Some(at) if now.saturating_duration_since(at) >= settings.heartbeat_answer => {
                    closing.push((client, CloseCode::HEARTBEAT_MISSED, "no answer to a ping"));
                }
                None if now.saturating_duration_since(session.heard) >= settings.heartbeat => {
                    session.pinged = Some(now);
                    session.output.append(pool, |out| encode::ping(out, b""));
                    list_output(clients_with_output, client, session);
                }
                _ => {}
            }
        }
        memory.set(kept);
        self.figures = figures;
        let evicted = memory.evict(settings.memory, unwritten);
        for (client, code, reason) in closing {
            self.counts.expired_tokens += u64::from(code == CloseCode::TOKEN_EXPIRED);
            self.close(client, code, reason);
        }
        for client in evicted {
            self.counts.evicted += 1;
            self.close(client, CloseCode::TOO_SLOW, "memory is short, and much waits for you to read it");
        }
    }
}
