//! HTTP requests below a dialect's mount, their answers, and sessions to open. The edge's shell
//! creates requests and carries out answers; the dialects decide.

use std::fmt;

use signaling_protocol::ClientId;

use crate::query;
use crate::translator::{Close, Translate, Translator};

/// A request, after the edge has checked its origin.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Head<'a> {
    /// Method, for example `GET`.
    pub method: &'a str,
    /// Path below the mount: empty, or with a leading slash. Not decoded.
    pub path: &'a str,
    /// Query without `?`. Empty: there is none. It contains secrets.
    pub query: &'a str,
    /// Header `Origin`. `None`: the request has none.
    pub origin: Option<&'a str>,
    /// Header `Access-Control-Request-Headers`. `None`: the request has none.
    pub asked_headers: Option<&'a str>,
    /// `true` for a request to upgrade to a WebSocket.
    pub upgrade: bool,
}

impl fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head").field("method", &self.method).field("path", &self.path).finish_non_exhaustive()
    }
}

/// Answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// Plain HTTP. The upgrade, if there was one, is refused.
    Http(HttpAnswer),
    /// The edge verifies the token, opens a session, and upgrades once a node has admitted it. Only
    /// for a request with [`Head::upgrade`].
    Upgrade(Box<Opening>),
    /// The edge upgrades, writes a frame and closes; no session. Only with [`Head::upgrade`].
    Reject(Rejection),
    /// The dialect serves no such request: 404.
    NotFound,
}

/// A plain HTTP answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// HTTP status code.
    pub status: u16,
    /// Headers without `Content-Length`, as (name in lower case, value).
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: String,
}

impl HttpAnswer {
    pub(crate) fn new(status: u16, content_type: &str, body: impl Into<String>) -> Self {
        Self { status, headers: vec![("content-type", content_type.to_owned())], body: body.into() }
    }
}

/// A refusal behind a completed upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Content of the text frame.
    pub frame: String,
    /// Close frame behind it. Its reason is not sent.
    pub close: Close,
}

/// A session that the edge opens for a client.
pub struct Opening {
    /// Its client id, which begins with `~` and the dialect's code.
    pub client_id: ClientId,
    /// SHA-256 that proves the claim of the id. `None`: the id is random and not claimed.
    pub credential: Option<[u8; 32]>,
    /// Event that ends the session.
    pub lifetime: Lifetime,
    /// Token of the query, not verified. `None`: it has none. `Authorization: Bearer` takes
    /// precedence. The edge uses it only where tokens are configured.
    pub token: Option<String>,
    /// Subject that a verified token must have. `None`: any.
    pub subject: Option<String>,
    /// Refusal if another client has the id. `None`: HTTP status 409.
    pub if_taken: Option<Rejection>,
    /// Translator of the socket.
    pub translator: Translator,
}

impl Opening {
    /// Answers an upgrade request by an opening that claims no id and ends with its socket. A plain
    /// request, or an invalid `client_id`, gets [`Answer::NotFound`].
    pub(crate) fn anonymous(head: &Head<'_>, client_id: &str, translator: impl Translate + 'static) -> Answer {
        let Some(client_id) = ClientId::new(client_id).ok().filter(|_| head.upgrade) else { return Answer::NotFound };
        Answer::Upgrade(Box::new(Self {
            client_id,
            credential: None,
            lifetime: Lifetime::EndsWithSocket,
            token: query::field(head.query, "token").filter(|token| !token.is_empty()),
            subject: None,
            if_taken: None,
            translator: Box::new(translator),
        }))
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Credential and token are secrets.
        let Self { client_id, lifetime, subject, .. } = self;
        f.debug_struct("Opening")
            .field("client_id", client_id)
            .field("lifetime", lifetime)
            .field("subject", subject)
            .finish_non_exhaustive()
    }
}

/// Event that ends a session. A close by the translator always ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Any end of the socket that the edge reports ends the session, without linger or seat grace.
    EndsWithSocket,
    /// A close frame of the client ends the session. It lingers after a broken socket.
    EndsWithCloseFrame,
}
