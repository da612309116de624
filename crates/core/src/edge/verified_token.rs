//! Claims of a client's token, and its renewal over the open socket.

use std::fmt;
use std::time::Instant;

use signaling_protocol::ErrorCode;
use signaling_protocol::server::ServerMessage;
use signaling_wire::trunk::ToNode;

use super::{ClientKey, EdgeCore};
use crate::rate_class::RateClass;
use crate::ws::encode;

/// The claims of a verified token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedToken {
    /// The [`Grant`](signaling_wire::grant::Grant) for nodes.
    pub grant: Box<[u8]>,
    /// Time of issue, in seconds since 1970. 0: the token has none.
    pub issued: u64,
    /// Time at which the socket closes without a newer token. `None`: never.
    pub expires: Option<Instant>,
    /// The client's rate class.
    pub rate_class: Option<RateClass>,
}

/// A token as sent by a client. It is never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct PresentedToken(pub Box<str>);

impl fmt::Debug for PresentedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl EdgeCore {
    /// Returns the claims of the client's token. `None`: tokens are not required.
    pub fn proven(&self, client: ClientKey) -> Option<&VerifiedToken> {
        self.sessions.get(client)?.token.as_deref()
    }

    /// Replaces the client's token after [`Effect::Verify`](super::Effect::Verify).
    pub fn renewed(&mut self, client: ClientKey, proven: VerifiedToken) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        session.send(&mut self.links, |slot| ToNode::Grant { slot, grant: &proven.grant });
        session.token = Some(Box::new(proven));
    }

    /// Sends the client the reason why its token was rejected. The old token stays.
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

    use signaling_protocol::{ClientId, CloseCode};
    use signaling_wire::trunk::{Attach, DetachReason, ToEdge};
    use signaling_wire::{RemainingTtl, Seq, SessionId};

    use super::super::{ConnectRequest, Effect, Kick, LinkKey, Newcomer, Settings};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const ISSUED: u64 = 1_000;

    struct Stage {
        core: EdgeCore,
        link: LinkKey,
        client: ClientKey,
        now: Instant,
    }

    fn proven(grant: &[u8], expires: Option<Instant>) -> VerifiedToken {
        VerifiedToken { grant: grant.into(), issued: ISSUED, expires, rate_class: None }
    }

    impl Stage {
        /// A client with an open socket and these claims.
        fn new(proven: impl FnOnce(Instant) -> Option<VerifiedToken>) -> Self {
            let mut stage = Self::waiting(proven);
            stage.core.socket_opened(stage.now, stage.client);
            stage.effects();
            stage
        }

        /// A client that the node has admitted, before the answer to its upgrade request.
        fn waiting(proven: impl FnOnce(Instant) -> Option<VerifiedToken>) -> Self {
            let (mut core, now) = (EdgeCore::new(Settings::default()), Instant::now());
            let (client_id, session) = (ClientId::new("alice").unwrap(), SessionId([1; 16]));
            let request = ConnectRequest { proven: proven(now), ..ConnectRequest::default() };
            let client =
                core.connect(now, Newcomer { client_id, session, accepted_at_us: 1, reliable: false, request });
            let link = core.link_up();
            let mut stage = Self { core, link, client, now };
            stage.comes_to(link);
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
                seq: Seq(0),
                hold: RemainingTtl::NONE,
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
                    ToNode::Attach(Attach { grant: Some(grant), .. }) => format!("proven {}", grant.escape_ascii()),
                    ToNode::Attach(_) => "attach".to_owned(),
                    ToNode::Grant { grant, .. } => format!("grant {}", grant.escape_ascii()),
                    ToNode::Up { payload, .. } => format!("up {}", payload.escape_ascii()),
                    ToNode::Detach { cause, .. } => format!("detach {cause:?}"),
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
    fn socket_outlives_its_token_only_if_a_newer_one_was_shown() {
        let mut stage = Stage::new(|now| Some(proven(b"old", Some(now + 10 * SECOND))));
        assert_eq!(stage.said(), ["proven old"]);
        stage.says(r#"{"type":"token","token":"a.b.c"}"#);
        let asked = stage.effects();
        assert_eq!(asked, [Effect::Verify(stage.client, PresentedToken("a.b.c".into()))]);
        assert!(!format!("{asked:?}").contains("a.b.c"));
        stage.core.renewed(stage.client, proven(b"new", Some(stage.now + 20 * SECOND)));
        assert_eq!(stage.said(), ["grant new"]);
        assert_eq!(stage.passes(15 * SECOND), None);
        assert_eq!(stage.passes(5 * SECOND), Some(CloseCode::TOKEN_EXPIRED));
        assert_eq!((stage.said(), stage.core.counts().expired_tokens), (vec!["detach Closed".to_owned()], 1));
    }

    #[test]
    fn token_that_is_refused_changes_nothing_but_is_answered() {
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
    fn next_node_gets_the_grant_of_the_latest_token() {
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
    fn attach_has_no_grant_when_tokens_are_not_required() {
        let mut stage = Stage::new(|_| None);
        let text = r#"{"type":"token","token":"a.b.c"}"#;
        stage.says(text);
        assert_eq!(
            (stage.effects(), stage.said()),
            (vec![], vec!["attach".to_owned(), format!("up {}", text.escape_default())])
        );
    }

    #[test]
    fn kicked_session_ends_for_good() {
        let mut stage = Stage::new(|_| Some(proven(b"old", None)));
        stage.said();
        assert!(!stage.core.kick(&ClientId::new("bob").unwrap(), ISSUED - 1, true));
        assert!(stage.core.kick(&ClientId::new("alice").unwrap(), ISSUED - 1, true));
        assert!(matches!(stage.effects()[..], [Effect::Close(_, CloseCode::KICKED, _)]));
        assert_eq!(stage.said(), ["detach Left"]);
    }

    #[test]
    fn kick_by_a_node_reaches_a_client_of_another_node() {
        let mut stage = Stage::new(|_| None);
        let (mut bytes, other) = (Vec::new(), stage.core.link_up());
        for client_id in ["alice", "no client"] {
            ToEdge::Kicked { client_id, at: 9, at_once: true }.append(&mut bytes);
        }
        ToEdge::Kicked { client_id: "alice", at: 7, at_once: false }.append(&mut bytes);
        stage.core.link_frames(stage.now, other, &bytes).unwrap();
        let kick = |at, at_once| Effect::Kick(Kick { client_id: ClientId::new("alice").unwrap(), at, at_once });
        assert_eq!(stage.effects(), [kick(9, true), kick(7, false)]);
    }

    #[test]
    fn client_with_a_newer_token_survives_a_kick_from_elsewhere() {
        let alice = ClientId::new("alice").unwrap();
        let mut stage = Stage::new(|_| Some(proven(b"grant", None)));
        assert!(!stage.core.kick(&alice, ISSUED - 1, false));
        assert!(!stage.core.is_kicked(&alice, &proven(b"", None)));
        assert!(stage.core.kick(&alice, ISSUED, false), "its token may be from before");
        assert!(stage.core.is_kicked(&alice, &proven(b"", None)));
        let mut stage = Stage::new(|_| Some(proven(b"grant", None)));
        stage.core.kick(&alice, ISSUED - 1, false);
        assert!(!stage.core.kick(&alice, ISSUED - 1, true), "of a kick that is known by now each node tells");
        assert!(stage.core.kick(&alice, ISSUED, true), "and of this one nobody has told");
        assert!(!stage.core.is_kicked(&ClientId::new("bob").unwrap(), &proven(b"", None)));

        let mut stage = Stage::new(|_| None);
        assert!(!stage.core.kick(&alice, ISSUED, false), "nobody has to show anything here");
    }

    #[test]
    fn kick_before_the_nodes_decision_detaches_the_session() {
        let alice = ClientId::new("alice").unwrap();
        let (mut core, now) = (EdgeCore::new(Settings::default()), Instant::now());
        let newcomer = Newcomer {
            client_id: alice.clone(),
            session: SessionId([1; 16]),
            accepted_at_us: 1,
            reliable: false,
            request: ConnectRequest::default(),
        };
        let client = core.connect(now, newcomer);
        let link = core.link_up();
        core.attach(now, client, link);
        assert!(core.kick(&alice, ISSUED, true));
        let batch = core.take_batch(link);
        let mut rest = &batch[..];
        assert!(matches!(ToNode::take(&mut rest).unwrap(), ToNode::Attach(_)));
        assert_eq!(ToNode::take(&mut rest).unwrap(), ToNode::Detach { slot: 0, cause: DetachReason::Left });
        let refused = std::iter::from_fn(|| core.next_effect()).find_map(|effect| match effect {
            Effect::Refuse(_, refusal) => Some(refusal.status),
            _ => None,
        });
        assert_eq!(refused, Some(403));
    }

    #[test]
    fn kick_during_the_upgrade_answer_ends_the_session() {
        let mut stage = Stage::waiting(|_| None);
        assert!(stage.core.kick(&ClientId::new("alice").unwrap(), ISSUED, true));
        assert!(!stage.core.kick(&ClientId::new("alice").unwrap(), ISSUED, true), "once is enough");
        stage.core.socket_opened(stage.now, stage.client);
        assert_eq!(stage.said(), ["attach", "detach Left"]);
    }

    #[test]
    fn node_receives_the_kicks_that_an_edge_remembers() {
        let mut stage = Stage::new(|_| None);
        let [alice, bob] = ["alice", "bob"].map(|name| ClientId::new(name).unwrap());
        stage.core.kick(&bob, 8, false);
        stage.core.kick(&alice, 7, false);
        let new = stage.core.link_up();
        stage.core.spread_kick(&bob, 9);
        let batch = stage.core.take_batch(new);
        let mut rest = &batch[..];
        for (client_id, at) in [("alice", 7), ("bob", 8), ("bob", 9)] {
            assert_eq!(ToNode::take(&mut rest).unwrap(), ToNode::Kicked { client_id, at });
        }
        assert!(rest.is_empty());
    }
}
