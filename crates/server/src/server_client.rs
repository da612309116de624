//! Requests of one server to others, with limits on answer size, concurrency and total time. Also
//! makes the HTTP client of such requests and of lanes.

use std::collections::BTreeSet;
use std::time::Duration;

use ::http::{HeaderMap, Method, StatusCode};
use futures_util::{StreamExt as _, stream};
use serde::de::DeserializeOwned;
use signaling_admin::Missing;
use signaling_membership::{NodeEntry, View};
use signaling_protocol::NodeId;
use tokio::time::{Instant, timeout, timeout_at};

use crate::proofs::{Proofs, Purpose};

/// Maximum time for another server's answer to a request that an operator caused.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_CONCURRENT: usize = 16;
/// Bytes that are read of a refusal.
const MAX_REFUSAL_BYTES: usize = 1024;
/// Maximum time for all servers together.
pub(crate) const TOTAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Client of other servers' internal listeners, with proofs of the mesh secret. Clones share
/// connections.
#[derive(Clone)]
pub struct ServerClient {
    http: reqwest::Client,
    proofs: Proofs,
    answer_timeout: Duration,
    max_answer_bytes: usize,
}

/// The answer of one server.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: StatusCode,
    /// Body, at most as long as the client's limit.
    pub body: Vec<u8>,
}

/// Answers of several servers, and the servers without a usable answer.
#[derive(Debug)]
pub struct Answers<T> {
    /// Server and its answer, in the order of arrival.
    pub answers: Vec<(NodeId, T)>,
    /// Servers without a usable answer, each with the reason, sorted.
    pub missing: Vec<Missing>,
}

impl ServerClient {
    /// Creates a client with a time limit and a size limit in bytes for each answer.
    ///
    /// # Errors
    /// If the system refuses a resource of the HTTP client.
    pub fn new(proofs: Proofs, answer_timeout: Duration, max_answer_bytes: usize) -> Result<Self, reqwest::Error> {
        let http = http_client(answer_timeout, 1)?;
        Ok(Self { http, proofs, answer_timeout, max_answer_bytes })
    }

    /// Returns a client on the same connections, with the shorter of its time limit and this one.
    #[must_use]
    pub fn at_most(&self, answer_timeout: Duration) -> Self {
        Self { answer_timeout: self.answer_timeout.min(answer_timeout), ..self.clone() }
    }

    /// Sends a request without a body to one server, with a proof of the mesh secret. Returns its
    /// answer with any status. `path` begins with `/` and can have a query.
    ///
    /// # Errors
    /// Returns the reason, without the address and path: no connection, a broken one, no answer in
    /// time, or an answer above the limit.
    pub async fn request(&self, server: &NodeEntry, method: Method, path: &str) -> Result<Answer, String> {
        let exchange = async {
            let send = async |headers: &HeaderMap| {
                let request = self.http.request(method.clone(), format!("http://{}{path}", server.address));
                request.headers(headers.clone()).send().await.map_err(|error| reason(&error))
            };
            let headers = || self.proofs.headers(Purpose::Request, &server.id);
            let sent = headers();
            let mut response = send(&sent).await?;
            let is_refused = response.status() == StatusCode::UNAUTHORIZED;
            if is_refused && self.proofs.learn(&server.id, &sent, response.headers()) {
                response = send(&headers()).await?;
            }
            let (status, mut body) = (response.status(), Vec::new());
            while let Some(chunk) = response.chunk().await.map_err(|error| reason(&error))? {
                if body.len() + chunk.len() > self.max_answer_bytes {
                    return Err(format!("its answer exceeds {} bytes", self.max_answer_bytes));
                }
                body.extend_from_slice(&chunk);
            }
            Ok(Answer { status, body })
        };
        let answer = timeout(self.answer_timeout, exchange).await;
        answer.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.answer_timeout)))
    }

    /// Requests JSON of one server. Fails also for a status except 200, or JSON of another shape.
    pub(crate) async fn request_json<T: DeserializeOwned>(
        &self,
        server: &NodeEntry,
        method: Method,
        path: &str,
    ) -> Result<T, String> {
        let Answer { status, body } = self.request(server, method, path).await?;
        if status != StatusCode::OK {
            return Err(format!("it answers {status}"));
        }
        serde_json::from_slice(&body).map_err(|error| format!("its answer is malformed: {error}"))
    }

    /// Requests JSON from the servers of `view` other than `own`, at most 16 at a time and for at
    /// most 5 s. A server without such an answer of status 200 by then is in [`Answers::missing`].
    pub async fn request_all<T: DeserializeOwned>(
        &self,
        view: &View,
        own: &str,
        method: Method,
        path: &str,
    ) -> Answers<T> {
        let deadline = Instant::now() + TOTAL_TIMEOUT;
        let servers: Vec<_> = view.members().iter().filter(|server| server.id.as_str() != own).cloned().collect();
        let mut pending: BTreeSet<_> = servers.iter().map(|server| server.id.clone()).collect();
        let requests = servers.into_iter().map(|server| {
            let (client, method, path) = (self.clone(), method.clone(), path.to_owned());
            async move { (client.request_json(&server, method, &path).await, server.id) }
        });
        let mut requests = stream::iter(requests).buffer_unordered(MAX_CONCURRENT);
        let missing = |server: NodeId, why| Missing { node: server.to_string(), why };
        let mut result = Answers { answers: Vec::new(), missing: Vec::new() };
        while let Ok(Some((answer, server))) = timeout_at(deadline, requests.next()).await {
            pending.remove(&server);
            match answer {
                Ok(answer) => result.answers.push((server, answer)),
                Err(why) => result.missing.push(missing(server, why)),
            }
        }
        let late = || format!("no answer within {TOTAL_TIMEOUT:?}");
        result.missing.extend(pending.into_iter().map(|server| missing(server, late())));
        result.missing.sort();
        result
    }
}

/// Returns an HTTP client for servers of the mesh, which connects within `connect_timeout` and
/// keeps at most `idle` unused connections to each.
///
/// # Errors
/// If the system refuses a resource.
pub fn http_client(connect_timeout: Duration, idle: usize) -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .no_proxy()
        .http1_only()
        .tcp_nodelay(true)
        .connect_timeout(connect_timeout)
        .pool_max_idle_per_host(idle)
        .redirect(reqwest::redirect::Policy::none())
        .build()
}

/// Returns the status of a refused request and the text of its answer, of which it reads 1 KiB.
pub async fn refusal_text(mut response: reqwest::Response) -> String {
    let (status, mut body) = (response.status(), Vec::new());
    while body.len() < MAX_REFUSAL_BYTES
        && let Ok(Some(chunk)) = response.chunk().await
    {
        body.extend_from_slice(&chunk);
    }
    crate::http::refusal_summary(status, &body)
}

fn reason(error: &reqwest::Error) -> String {
    let reason = if error.is_connect() { "it does not accept connections" } else { "the connection failed" };
    reason.to_owned()
}
