//! Claims of a client's token, and its renewal over the open socket.

use std::fmt;
use std::time::Instant;

use signaling_protocol::ErrorCode;
use signaling_protocol::client::Names;
use signaling_wire::trunk::ToNode;

use super::{ClientKey, EdgeCore, KickName};
use crate::rate_class::RateClass;

/// The claims of a verified token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedToken {
    /// The encoded [`Grant`](signaling_wire::grant::Grant) for nodes.
    pub grant: Box<[u8]>,
    /// Its subject, for kicks. `None`: the subject is the client's id.
    pub subject: Option<KickName>,
    /// Time of issue, in seconds since 1970. 0: the token has none.
    pub issued: u64,
    /// Time at which the socket closes with 4003 unless a newer token came. `None`: never.
    pub expires: Option<Instant>,
    /// The client's rate class. `None`: the usual rates.
    pub rate_class: Option<RateClass>,
}

/// An identity or resume token as sent by a client. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct PresentedToken(pub Box<str>);

impl fmt::Debug for PresentedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl EdgeCore {
    /// Replaces the client's token after [`Effect::Verify`](super::Effect::Verify), and sends the
    /// new grant to its node. The client gets no answer.
    pub fn renewed(&mut self, client: ClientKey, token: VerifiedToken) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        session.send(&mut self.links, |slot| ToNode::Grant { slot, grant: &token.grant });
        self.rate_buckets.renew(&mut session.rate_buckets, &session.client_id, &token);
        session.token = Some(Box::new(token));
    }

    /// Sends the client an `error` (`forbidden`) with the reason why its token was rejected. The
    /// old token stays.
    pub fn not_renewed(&mut self, client: ClientKey, why: &str) {
        self.write_error(client, (ErrorCode::Forbidden, why), Names::default(), None);
    }
}
