//! What a client has proven by a token, and the renewal of it over the open socket.

use std::fmt;
use std::time::Instant;

use signaling_protocol::ErrorCode;
use signaling_protocol::server::ServerMessage;
use signaling_protocol::trunk::ToNode;

use super::{ClientKey, EdgeCore};
use crate::rate_class::RateClass;
use crate::ws::encode;

/// What a token, once it has been verified, says of its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    /// What nodes are told: a [`Grant`](signaling_protocol::grant::Grant).
    pub grant: Box<[u8]>,
    /// When the socket is closed unless a newer token is shown; none: later than this process can count.
    pub expires: Option<Instant>,
    /// How fast the client may be, by the name that the operator gave that.
    pub rate_class: Option<RateClass>,
}

/// A token as a client sent it. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ShownToken(pub Box<str>);

impl fmt::Debug for ShownToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl EdgeCore {
    /// What the client has proven, where tokens are asked for.
    #[must_use]
    pub fn proven(&self, client: ClientKey) -> Option<&Proven> {
        self.sessions.get(client)?.proven.as_deref()
    }

    /// The token of an [`Effect::Verify`](super::Effect::Verify) is good: it takes the place of the old one.
    pub fn renewed(&mut self, client: ClientKey, proven: Proven) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        if let Some((link, slot)) = session.at()
            && let Some(link) = self.links.get_mut(link)
        {
            link.send(&ToNode::Grant { slot, grant: &proven.grant });
        }
        session.proven = Some(Box::new(proven));
    }

    /// It is not: the client is told why, and the old one goes on counting.
    pub fn not_renewed(&mut self, client: ClientKey, why: &str) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        let (code, message) = (ErrorCode::Forbidden, why);
        let error = ServerMessage::Error { code, message, id: None, to: None, room: None, retry_after_ms: None };
        session.output.append(&mut self.pool, |out| encode::text(out, &error.to_json()));
        self.check_output(client);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::time::Duration;

    use signaling_protocol::trunk::ToEdge;
    use signaling_protocol::{ClientId, CloseCode, Left, SessionId};

    use super::super::{ConnectRequest, Effect, LinkKey, Newcomer, Settings};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct Stage {
        core: EdgeCore,
        link: LinkKey,
        client: ClientKey,
        now: Instant,
    }

    fn proven(grant: &[u8], expires: Option<Instant>) -> Proven {
        Proven { grant: grant.into(), expires, rate_class: None }
    }

    impl Stage {
        /// A client with an open socket that has proven this.
        fn new(proven: impl FnOnce(Instant) -> Option<Proven>) -> Self {
            let (mut core, now) = (EdgeCore::new(Settings::default()), Instant::now());
            let (client_id, session) = (ClientId::new("alice").unwrap(), SessionId([1; 16]));
            let request = ConnectRequest { proven: proven(now), ..ConnectRequest::default() };
            let client = core.connect(now, Newcomer { client_id, session, born: 1, reliable: false, request });
            let link = core.link_up();
            let mut stage = Self { core, link, client, now };
            stage.comes_to(link);
            stage.core.socket_opened(now, client);
            stage.effects();
            stage
        }

        fn comes_to(&mut self, link: LinkKey) {
            self.core.attach(self.now, self.client, link);
            let session = SessionId([1; 16]);
            let attached = ToEdge::Attached {
                slot: 0,
                session,
                resumed: false,
                seq: 0,
                hold: Left::NONE,
                greeting: &[],
                state: b"s",
            };
            let mut bytes = Vec::new();
            attached.append(&mut bytes);
            self.core.link_frames(self.now, link, &bytes).unwrap();
            self.link = link;
        }

        fn says(&mut self, text: &str) {
            self.core.client_text(self.now, self.client, text.as_bytes());
        }

        fn effects(&mut self) -> Vec<Effect> {
            std::iter::from_fn(|| self.core.next_effect()).collect()
        }

        fn said(&mut self) -> Vec<String> {
            let batch = self.core.take_batch(self.link);
            let mut rest = &batch[..];
            let mut said = Vec::new();
            while !rest.is_empty() {
                said.push(match ToNode::take(&mut rest).unwrap() {
                    ToNode::AttachProven { grant, .. } => format!("proven {}", grant.escape_ascii()),
                    ToNode::Attach(_) => "attach".to_owned(),
                    ToNode::Grant { grant, .. } => format!("grant {}", grant.escape_ascii()),
                    ToNode::Up { payload, .. } => format!("up {}", payload.escape_ascii()),
                    ToNode::Detach { gone, .. } => format!("detach {gone:?}"),
                    other => panic!("{other:?}"),
                });
            }
            said
        }

        fn passes(&mut self, time: Duration) -> Option<CloseCode> {
            self.now += time;
            self.core.heard(self.now, self.client);
            self.core.sweep(self.now);
            self.effects().into_iter().find_map(|effect| match effect {
                Effect::Close(_, code, _) => Some(code),
                _ => None,
            })
        }
    }

    #[test]
    fn a_socket_outlives_its_token_only_if_a_newer_one_was_shown() {
        let mut stage = Stage::new(|now| Some(proven(b"old", Some(now + 10 * SECOND))));
        assert_eq!(stage.said(), ["proven old"]);
        stage.says(r#"{"type":"token","token":"a.b.c"}"#);
        let asked = stage.effects();
        assert_eq!(asked, [Effect::Verify(stage.client, ShownToken("a.b.c".into()))]);
        assert!(!format!("{asked:?}").contains("a.b.c"));
        stage.core.renewed(stage.client, proven(b"new", Some(stage.now + 20 * SECOND)));
        assert_eq!(stage.said(), ["grant new"]);
        assert_eq!(stage.passes(15 * SECOND), None);
        assert_eq!(stage.passes(5 * SECOND), Some(CloseCode::TOKEN_EXPIRED));
        assert_eq!((stage.said(), stage.core.counts().expired_tokens), (vec!["detach Closed".to_owned()], 1));
    }

    #[test]
    fn a_token_that_is_refused_changes_nothing_but_is_answered() {
        let mut stage = Stage::new(|now| Some(proven(b"old", Some(now + 10 * SECOND))));
        stage.core.not_renewed(stage.client, "the token's signature is wrong");
        let output = String::from_utf8_lossy(stage.core.output(stage.client)).into_owned();
        assert!(
            output.contains(r#"{"type":"error","code":"forbidden","message":"the token's signature is wrong"}"#),
            "{output}"
        );
        stage.said();
        assert_eq!(stage.passes(10 * SECOND), Some(CloseCode::TOKEN_EXPIRED));
    }

    #[test]
    fn the_next_node_is_told_what_the_latest_token_says() {
        let mut stage = Stage::new(|_| Some(proven(b"old", None)));
        stage.core.renewed(stage.client, proven(b"new", None));
        stage.said();
        let next = stage.core.link_up();
        stage.core.link_down(stage.link);
        stage.comes_to(next);
        assert_eq!(stage.said(), ["proven new"]);
        assert_eq!(stage.passes(1_000_000 * SECOND), None, "this one does not expire");
    }

    #[test]
    fn where_tokens_are_not_asked_for_the_node_says_so() {
        let mut stage = Stage::new(|_| None);
        let text = r#"{"type":"token","token":"a.b.c"}"#;
        stage.says(text);
        assert_eq!(
            (stage.effects(), stage.said()),
            (vec![], vec!["attach".to_owned(), format!("up {}", text.escape_default())])
        );
    }

    #[test]
    fn who_is_put_out_has_left_for_good() {
        let mut stage = Stage::new(|_| Some(proven(b"old", None)));
        stage.said();
        assert!(!stage.core.kick(&ClientId::new("bob").unwrap()));
        assert!(stage.core.kick(&ClientId::new("alice").unwrap()));
        assert!(matches!(stage.effects()[..], [Effect::Close(_, CloseCode::KICKED, _)]));
        assert_eq!(stage.said(), ["detach Left"]);
    }

    #[test]
    fn a_node_may_have_somebody_put_out_whom_another_serves() {
        let mut stage = Stage::new(|_| None);
        let (mut bytes, other) = (Vec::new(), stage.core.link_up());
        for client_id in ["alice", "no client"] {
            ToEdge::Kick { client_id }.append(&mut bytes);
        }
        stage.core.link_frames(stage.now, other, &bytes).unwrap();
        assert_eq!(stage.effects(), [Effect::Kick(ClientId::new("alice").unwrap())]);
    }
}
