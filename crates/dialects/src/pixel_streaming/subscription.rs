//! The subscription of a player or SFU to a streamer.
//!
//! A subscription begins with a `join` of the streamer's room. The client's streamer is the newest
//! one before its own position. Until the streamer's translator decides, messages of both wait.

use std::time::{Duration, Instant};

use signaling_protocol::CloseCode;

use super::Present;
use super::envelope::Envelope;
use super::mesh::{Context, players_room};
use super::peer::{Kind, Peer};
use crate::event::{AnswerKind, IgnoredReason};
use crate::held::Held;
use crate::json::{Object, quote};
use crate::translator::Close;

/// Maximum wait for a streamer's decision.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Waiting messages at which the edge stops reading.
const FULL: usize = 16;
const FULL_BYTES: usize = 128 * 1024;

/// Messages that wait for a streamer's decision.
type Waiting<T> = Held<T, 64, { 512 * 1024 }>;

/// A decided subscription.
#[derive(Debug)]
struct Current {
    room: String,
    streamer: Peer,
    subscription: u64,
}

/// A subscription without a decision.
#[derive(Debug)]
struct Attempt {
    room: String,
    /// The streamer's id as the client wrote it, and as answers show it.
    shown_id: String,
    subscription: u64,
    /// `true` if it is for the sake of the messages that wait.
    is_forced: bool,
    stage: Stage,
    since: Instant,
    /// Messages of possible streamers.
    early: Waiting<Peer>,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// The list of members is not read up to the client. `newest`: the last streamer in it so far.
    Find { newest: Option<Peer>, has_page: bool },
    /// This streamer has to decide.
    Wait { streamer: Peer },
}

/// Effect of an input on the client's messages that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// They wait on.
    Unchanged,
    /// They can be handled, because there is a decision.
    Decided,
    /// The streamer of the present subscription is gone.
    StreamerGone,
}

#[derive(Debug, Default)]
pub(super) struct Subscription {
    current: Option<Current>,
    attempt: Option<Attempt>,
    /// Number of the last attempt.
    last: u64,
    /// Messages of the client.
    waiting: Waiting<()>,
    /// `true` while messages of the client wait for the list of streamers and its first one.
    pub(super) needs_list: bool,
}

impl Subscription {
    /// Returns `true` while messages of the client must wait.
    pub(super) fn is_undecided(&self) -> bool {
        self.attempt.is_some() || self.needs_list
    }

    /// Lets a message of the client wait. It is dropped if 64 messages or 512 KiB wait.
    pub(super) fn hold(&mut self, context: &mut Context<'_>, text: &str) {
        if !self.waiting.push((), text) {
            context.out.ignore(IgnoredReason::Limit);
        }
    }

    /// Returns the next message that need not wait any more. `None`: there is none.
    pub(super) fn next_waiting(&mut self) -> Option<String> {
        if self.is_undecided() {
            return None;
        }
        self.waiting.pop()
    }

    /// Returns `true` if the edge must not read further messages: 16 or 128 KiB wait.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= FULL || self.waiting.text_bytes() >= FULL_BYTES
    }

    /// Returns the streamer and the number of the present subscription. `None`: there is none.
    pub(super) fn current(&self) -> Option<(Peer, u64)> {
        self.current.as_ref().map(|current| (current.streamer, current.subscription))
    }

    /// Returns `true` if the client has or enters a seat in this room.
    pub(super) fn is_in(&self, room: &str) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.room == room)
            || self.current.as_ref().is_some_and(|current| current.room == room)
    }

    /// Handles the first id of all streamers. `None`: there are none; closes a client that waits.
    pub(super) fn listed(&mut self, context: &mut Context<'_>, first: Option<&str>) {
        if !std::mem::take(&mut self.needs_list) {
            return;
        }
        match first {
            Some(id) => self.begin(context, id, id, true),
            None => context.out.close = Some(Close::EMPTY),
        }
    }

    /// Subscribes to a streamer. `is_forced`: for the sake of the messages that wait.
    pub(super) fn begin(&mut self, context: &mut Context<'_>, id: &str, shown_id: &str, is_forced: bool) {
        let room = players_room(id);
        if self.current.as_ref().is_some_and(|current| current.room == room) {
            self.unsubscribe(context);
        }
        self.last += 1;
        context.join(&room, Some(&format!(r#"{{"s":{}}}"#, self.last)));
        self.attempt = Some(Attempt {
            room,
            shown_id: shown_id.to_owned(),
            subscription: self.last,
            is_forced,
            stage: Stage::Find { newest: None, has_page: false },
            since: context.now,
            early: Waiting::default(),
        });
    }

    /// Leaves the room of the decided subscription. No effect without one.
    pub(super) fn unsubscribe(&mut self, context: &mut Context<'_>) {
        if let Some(current) = self.current.take() {
            context.leave(&current.room);
        }
    }

    /// Handles a page of a room's members, which can be the first, and behind which more can
    /// follow. Returns `true` if the next one is needed.
    pub(super) fn page(
        &mut self,
        context: &mut Context<'_>,
        room: &str,
        members: &[Present<'_>],
        (is_first, more): (bool, bool),
    ) -> (Progress, bool) {
        let end = members.iter().position(|member| member.peer == context.own);
        let before = members.iter().take(end.unwrap_or(members.len()));
        let streamers: Vec<Peer> = before.filter(|member| is_streamer(member)).map(|member| member.peer).collect();
        let is_whole = end.is_some() || !more;
        if let Some(current) = self.current.as_ref().filter(|current| current.room == room) {
            let is_there = streamers.contains(&current.streamer);
            let is_gone = is_whole && !is_there;
            return (if is_gone { Progress::StreamerGone } else { Progress::Unchanged }, !is_whole && !is_there);
        }
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.room == room) else {
            return (Progress::Unchanged, false);
        };
        match &mut attempt.stage {
            Stage::Find { newest, has_page } => {
                *newest = streamers.last().copied().or(newest.filter(|_| !is_first));
                *has_page = true;
                match (is_whole, *newest) {
                    (false, _) => (Progress::Unchanged, true),
                    (true, None) => (self.fail(context, None), false),
                    (true, Some(streamer)) => (self.found(context, streamer), false),
                }
            }
            Stage::Wait { streamer } if streamers.contains(streamer) => (Progress::Unchanged, false),
            Stage::Wait { .. } if is_whole => (self.fail(context, None), false),
            Stage::Wait { .. } => (Progress::Unchanged, true),
        }
    }

    /// Handles changes of a room's members.
    pub(super) fn change(
        &mut self,
        context: &mut Context<'_>,
        room: &str,
        joined: &[Present<'_>],
        left: &[Peer],
    ) -> Progress {
        // A streamer that joins has left before. All clients here have their position before it.
        let is_gone = |peer: Peer| left.contains(&peer) || joined.iter().any(|member| member.peer == peer);
        if let Some(current) = self.current.as_ref().filter(|current| current.room == room) {
            return if is_gone(current.streamer) { Progress::StreamerGone } else { Progress::Unchanged };
        }
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.room == room) else {
            return Progress::Unchanged;
        };
        match &mut attempt.stage {
            Stage::Find { newest, .. } => {
                *newest = newest.filter(|newest| !is_gone(*newest));
                Progress::Unchanged
            }
            Stage::Wait { streamer } if is_gone(*streamer) => self.fail(context, None),
            Stage::Wait { .. } => Progress::Unchanged,
        }
    }

    /// Handles success of a room's last `join`. Without a list before it, the client reconnects.
    pub(super) fn done(&self, context: &mut Context<'_>, room: &str) {
        let lacks_page = |attempt: &Attempt| matches!(attempt.stage, Stage::Find { has_page: false, .. });
        if self.attempt.as_ref().is_some_and(|attempt| attempt.room == room && lacks_page(attempt)) {
            context.out.close = Some(Close::RESTART);
        }
    }

    /// Handles the final failure of a `join`.
    pub(super) fn join_failed(&mut self, context: &mut Context<'_>, room: &str) -> Progress {
        match self.attempt.as_ref().is_some_and(|attempt| attempt.room == room) {
            true => self.fail(context, None),
            false => Progress::Unchanged,
        }
    }

    /// Handles a message of a streamer's translator. Before the list shows the streamer, it waits.
    pub(super) fn receive(&mut self, context: &mut Context<'_>, from: Peer, data: &str) -> Progress {
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
                context.out.frames.push(message.to_owned());
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
    fn found(&mut self, context: &mut Context<'_>, streamer: Peer) -> Progress {
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
    fn fail(&mut self, context: &mut Context<'_>, full: Option<u64>) -> Progress {
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

    /// Returns when the client must reconnect as its streamer does not decide. `None`: no need.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.attempt.as_ref().map(|attempt| attempt.since + MAX_WAIT)
    }

    pub(super) fn retained_bytes(&self) -> usize {
        let attempt = self
            .attempt
            .as_ref()
            .map_or(0, |attempt| attempt.room.len() + attempt.shown_id.len() + attempt.early.retained_bytes());
        attempt + self.waiting.retained_bytes() + self.current.as_ref().map_or(0, |current| current.room.len())
    }
}

/// Answers a `subscribe` that failed. An SFU gets no answer.
pub(super) fn refuse(context: &mut Context<'_>, message: &str) {
    if context.own.kind == Kind::Player {
        let frame = format!(r#"{{"type":"subscribeFailed","message":{}}}"#, quote(message));
        context.out.answer(AnswerKind::SubscribeFailed, frame);
    }
}

/// Returns `true` for a streamer in the room of its players.
fn is_streamer(member: &Present<'_>) -> bool {
    let data = member.data.and_then(|data| Object::parse(data.get().as_bytes()));
    let is_marked = data.and_then(|data| data.get("streamer").map(|value| value.get() == "true"));
    member.peer.kind == Kind::Streamer && is_marked == Some(true)
}

fn ignored(context: &mut Context<'_>, reason: IgnoredReason) -> Progress {
    context.out.ignore(reason);
    Progress::Unchanged
}
