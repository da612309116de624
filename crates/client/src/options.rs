//! Options of a client, for [`Client::connect`](crate::Client::connect).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use signaling_protocol::{ClientId, NameError};
use tokio_tungstenite::Connector;

use crate::core::Ms;
use crate::saved::SavedSession;

const PATH: &str = "/v1/connect";
const QUEUE: usize = 4_096;
const QUEUE_BYTES: usize = 2 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Proof of a client's identity.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub(crate) text: String,
    /// Validity from the return of the callback; `None`: until a server rejects it.
    pub(crate) valid_for: Option<Duration>,
}

impl Token {
    /// Creates a token from a JWT (RFC 7519), for use until a server rejects it.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), valid_for: None }
    }

    /// Sets the validity, from the return of the callback on. From 30 s before its end, or a tenth
    /// of the validity if that is less, the client uses the token for no new connection. An open
    /// connection then gets a new one.
    #[must_use]
    pub fn valid_for(self, time: Duration) -> Self {
        Self { valid_for: Some(time), ..self }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("valid_for", &self.valid_for).finish_non_exhaustive()
    }
}

/// Error of a token source, logged at the level debug. An attempt to connect then fails, and a
/// renewal on an open connection is repeated after 30 s.
pub type TokenError = Box<dyn std::error::Error + Send + Sync>;
type TokenFuture = Pin<Box<dyn Future<Output = Result<Token, TokenError>> + Send>>;
/// Callback that returns a new token.
pub(crate) type TokenSource = Arc<dyn Fn() -> TokenFuture + Send + Sync>;

/// Limits on the requests of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum queued requests, not counting sent ones.
    pub(crate) queue: usize,
    /// Maximum size of queued requests, in bytes, not counting sent ones.
    pub(crate) queue_bytes: usize,
    /// Time limit of a request from its acceptance until its outcome.
    pub(crate) timeout: Ms,
}

impl Default for Limits {
    fn default() -> Self {
        Self { queue: QUEUE, queue_bytes: QUEUE_BYTES, timeout: TIMEOUT.as_millis() as Ms }
    }
}

/// Identity of a client, servers to connect to, and limits.
#[derive(Clone)]
pub struct Options {
    pub(crate) client_id: ClientId,
    pub(crate) urls: Vec<Uri>,
    pub(crate) limits: Limits,
    pub(crate) tokens: Option<TokenSource>,
    /// Session of another process, of this client; `None`: a new one.
    pub(crate) session: Option<SavedSession>,
    /// Seed of all random draws; `None`: drawn from the system.
    pub(crate) seed: Option<u64>,
    /// TLS of `wss` URLs; `None` for the default.
    pub(crate) connector: Option<Connector>,
}

/// Error of invalid options.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The text is no valid client id; holds the defect.
    #[error("the client id {0}")]
    ClientId(#[from] NameError),
    /// The list of URLs is empty.
    #[error("no URL is given")]
    NoUrl,
    /// A URL is not one of a WebSocket server, or is `wss://` without the feature `rustls`.
    #[error("{url:?} is no URL like ws://HOST:PORT or wss://HOST: {why}")]
    Url {
        /// The URL as given.
        url: String,
        /// Its defect.
        why: String,
    },
}

impl Options {
    /// Creates options for a client with this id, with default limits and without tokens.
    /// The URLs name balancers (`ws://HOST:PORT`, or `wss://HOST` with the feature `rustls`). They
    /// are tried in this order, the next one after each failure or loss, and then from the first. A
    /// path other than `/` replaces `/v1/connect`. A query is kept.
    ///
    /// # Errors
    /// If the id or a URL is invalid, or there is no URL.
    pub fn new<U: AsRef<str>>(client_id: &str, urls: impl IntoIterator<Item = U>) -> Result<Self, OptionsError> {
        let client_id = ClientId::new(client_id)?;
        let urls = urls.into_iter().map(|url| endpoint(url.as_ref(), &client_id)).collect::<Result<Vec<_>, _>>()?;
        if urls.is_empty() {
            return Err(OptionsError::NoUrl);
        }
        Ok(Self {
            client_id,
            urls,
            limits: Limits::default(),
            tokens: None,
            session: None,
            seed: None,
            connector: None,
        })
    }

    /// Sets the source of tokens. It is called before the first attempt, when a token is due for
    /// renewal, and before an attempt after a rejection. After 30 s the call counts as failed. The
    /// client closes if a server rejects a token at the first attempt that presents it.
    #[must_use]
    pub fn tokens<F, T>(mut self, source: F) -> Self
    where
        F: Fn() -> T + Send + Sync + 'static,
        T: Future<Output = Result<Token, TokenError>> + Send + 'static,
    {
        self.tokens = Some(Arc::new(move || Box::pin(source())));
        self
    }

    /// Sets the maximum number and bytes of queued requests, 4,096 and 2 MiB by default. Further
    /// requests are refused with [`SendError::QueueFull`](crate::SendError::QueueFull). Requests
    /// that were sent do not count. An empty queue takes one request beyond the limits, unless 128
    /// sent requests, or 128 KiB of them, have no answer.
    #[must_use]
    pub fn queue(mut self, requests: usize, bytes: usize) -> Self {
        (self.limits.queue, self.limits.queue_bytes) = (requests, bytes);
        self
    }

    /// Sets the time limit of a request, including time without a connection; 60 s by default, in
    /// whole ms. At the limit the receipt resolves to
    /// [`RequestError::Expired`](crate::RequestError::Expired). With its default hold time the mesh
    /// gives a message up after about 23 s.
    #[must_use]
    pub fn request_timeout(mut self, time: Duration) -> Self {
        self.limits.timeout = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Resumes the session of another process. A session of another client id is ignored. If the
    /// mesh has ended the session, a new one gets its requests and rooms.
    #[must_use]
    pub fn session(mut self, session: SavedSession) -> Self {
        self.session = (session.client_id == self.client_id.as_str()).then_some(session);
        self
    }

    /// Seeds the client's random draws, such as its waits, for repeatable runs. Clients with the
    /// same seed reconnect together; without a seed each draws its own.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the TLS configuration for `wss`, such as private certificate authorities and client
    /// certificates. By default the client trusts the public authorities of `webpki-roots`.
    #[cfg(feature = "rustls")]
    #[must_use]
    pub fn tls(mut self, config: Arc<rustls::ClientConfig>) -> Self {
        self.connector = Some(Connector::Rustls(config));
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("client_id", &self.client_id)
            .field("urls", &self.urls)
            .field("limits", &self.limits)
            .field("resumes", &self.session.is_some())
            .finish_non_exhaustive()
    }
}

/// Returns the URL of the handshake. Tokens, which differ per attempt, are headers.
fn endpoint(url: &str, client_id: &ClientId) -> Result<Uri, OptionsError> {
    let bad = |why: String| OptionsError::Url { url: url.to_owned(), why };
    let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| bad(error.to_string()))?;
    let scheme = uri.scheme_str().filter(|scheme| ["ws", "wss"].contains(scheme));
    let scheme = scheme.ok_or_else(|| bad("use ws:// or wss://".to_owned()))?;
    if scheme == "wss" && !cfg!(feature = "rustls") {
        return Err(bad("wss:// needs the feature `rustls`".to_owned()));
    }
    let authority = uri.authority().ok_or_else(|| bad("it names no host".to_owned()))?;
    let path = if uri.path() == "/" { PATH } else { uri.path() };
    let more = uri.query().map(|query| format!("{query}&")).unwrap_or_default();
    format!("{scheme}://{authority}{path}?{more}client_id={client_id}&reliable=1")
        .parse()
        .map_err(|error: http::uri::InvalidUri| bad(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(urls: &[&str]) -> Result<Vec<String>, String> {
        let options = Options::new("ann", urls).map_err(|error| error.to_string())?;
        Ok(options.urls.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn url_without_a_path_gets_the_default_path() {
        let named = urls(&["ws://a:1", "ws://b:2/", "ws://[::1]:3/mesh/connect?zone=eu"]).unwrap();
        let expected = [
            "ws://a:1/v1/connect?client_id=ann&reliable=1",
            "ws://b:2/v1/connect?client_id=ann&reliable=1",
            "ws://[::1]:3/mesh/connect?zone=eu&client_id=ann&reliable=1",
        ];
        assert_eq!(named, expected);
    }

    #[test]
    fn invalid_url_is_named_in_the_error() {
        for (url, why) in [("http://a", "ws://"), ("a:1", "ws://"), ("", "empty"), ("ws://a b", "invalid")] {
            let error = urls(&[url]).unwrap_err();
            assert!(error.contains(&format!("{url:?}")) && error.contains(why), "{error}");
        }
        assert_eq!(urls(&[]).unwrap_err(), "no URL is given");
        assert!(Options::new("a b", ["ws://a"]).unwrap_err().to_string().starts_with("the client id may have only"));
    }

    #[test]
    fn debug_output_hides_the_token() {
        let token = format!("{:?}", Token::new("secret").valid_for(Duration::from_secs(1)));
        assert!(!token.contains("secret") && token.contains("1s"), "{token}");
    }
}
