//! Clients that go on writing to peers that are not there: operators are told of them, since nobody else sees who they are.

use signaling_protocol::ClientId;
use signaling_wire::SessionId;

use super::{NodeCore, SessionKey};

/// Of each so many messages of a session that did not reach their recipient, the last is worth a line.
const WORTH_A_LINE: u32 = 100;
/// Most lines that wait until somebody takes them.
const MOST: usize = 8;

/// A client with many messages that did not reach their recipients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndeliveredSender {
    /// Its id.
    pub client: ClientId,
    /// Its session.
    pub session: SessionId,
    /// How many of this session's messages that were, at this node.
    pub messages: u32,
}

impl NodeCore {
    /// One more message of this session did not reach its recipient.
    pub(super) fn writes_to_nobody(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.undelivered = session.undelivered.saturating_add(1);
        if session.undelivered.is_multiple_of(WORTH_A_LINE) && self.writers_to_nobody.len() < MOST {
            let (client, session, messages) = (session.client_id.clone(), session.id, session.undelivered);
            self.writers_to_nobody.push(UndeliveredSender { client, session, messages });
        }
    }

    /// Takes those who came to be worth a line since this was asked last; of more than a few the first.
    pub fn take_writers_to_nobody(&mut self) -> Vec<UndeliveredSender> {
        std::mem::take(&mut self.writers_to_nobody)
    }
}
