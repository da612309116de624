//! Decisions and messages of the streamer's translator.

use signaling_protocol::CloseCode;

use super::super::envelope::Envelope;
use super::super::mesh::Context;
use super::super::peer::Peer;
use super::{Attempt, Current, Progress, Stage, Subscription, Waiting, refuse};
use crate::event::IgnoredReason;
use crate::translator::Close;

impl Subscription {
    /// Handles a message of a streamer's translator.
    pub(in super::super) fn receive(&mut self, context: &mut Context<'_>, from: Peer, data: &str) -> Progress {
        let envelope = Envelope::parse(data);
        let Some(
            Envelope::In { subscription }
            | Envelope::Full { subscription, .. }
            | Envelope::Message { subscription, .. }
            | Envelope::Close { subscription, .. },
        ) = envelope
        else {
            return ignored(context, IgnoredReason::Type);
        };
        let is_decided = self.current() == Some((from, subscription));
        if !is_decided {
            let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.subscription == subscription) else {
                return ignored(context, IgnoredReason::UnknownPeer);
            };
            match attempt.stage {
                Stage::Find { .. } if attempt.early.push(from, data) => return Progress::Unchanged,
                Stage::Find { .. } => return ignored(context, IgnoredReason::Limit),
                Stage::Wait { streamer } if streamer == from => {}
                Stage::Wait { .. } => return ignored(context, IgnoredReason::UnknownPeer),
            }
        }
        match envelope {
            Some(Envelope::Close { reason, .. }) => {
                context.out.close = Some(Close::with_reason(CloseCode::INTERNAL, &reason));
                Progress::Unchanged
            }
            Some(Envelope::Message { message, .. }) if is_decided => {
                context.out.frames.push(message.get().to_owned());
                Progress::Unchanged
            }
            _ if is_decided => Progress::Unchanged,
            Some(Envelope::In { .. }) => {
                let attempt = self.attempt.take();
                self.current = attempt.map(|Attempt { room, .. }| Current { room, streamer: from, subscription });
                Progress::Decided
            }
            Some(Envelope::Full { max, .. }) => self.fail(context, Some(max)),
            _ => ignored(context, IgnoredReason::UnknownPeer),
        }
    }

    /// Handles the streamer being known.
    pub(super) fn found(&mut self, context: &mut Context<'_>, streamer: Peer) -> Progress {
        let Some(attempt) = &mut self.attempt else { return Progress::Unchanged };
        attempt.stage = Stage::Wait { streamer };
        let early = attempt.early.take_if(|from| *from == streamer);
        self.unsubscribe(context);
        let mut progress = Progress::Unchanged;
        for data in early {
            if self.receive(context, streamer, &data) == Progress::Decided {
                progress = Progress::Decided;
            }
        }
        progress
    }

    /// Ends the attempt. `full`: the maximum number of players. `None`: there is no such streamer.
    pub(super) fn fail(&mut self, context: &mut Context<'_>, full: Option<u64>) -> Progress {
        let Some(Attempt { room, shown_id, is_forced, .. }) = self.attempt.take() else { return Progress::Unchanged };
        context.leave(&room);
        if is_forced {
            self.waiting = Waiting::default();
        }
        let message = match full {
            Some(max) => format!("Streamer {shown_id} is full. Max players = {max}."),
            None => format!("Streamer {shown_id} does not exist."),
        };
        refuse(context, &message);
        Progress::Decided
    }
}

fn ignored(context: &mut Context<'_>, reason: IgnoredReason) -> Progress {
    context.out.ignore(reason);
    Progress::Unchanged
}
