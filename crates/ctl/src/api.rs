//! Requests to the operator API of one server, for `run` and `drain`, and their errors.

use std::path::Path;
use std::time::Duration;

use reqwest::{Method, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::ServerArgs;
use crate::local::LocalMesh;

/// Longer than a server's time limit for other servers.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Larger than a page of 1,000 clients.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
const DEFAULT_SERVER: &str = "http://127.0.0.1:7900";

/// Reason why a command failed. Texts are for the operator and name the option at fault.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// An argument, or a file that it names, is invalid. Nothing was sent.
    #[error("{0}")]
    Invalid(String),
    /// No connection, a broken one, or no whole answer within 10 s; or no HTTP client can be built.
    #[error("cannot reach {server}: {why}")]
    Unreachable { server: String, why: String },
    /// The server refuses the request or fails, with this HTTP status of 400 or more.
    #[error("{message}")]
    Refused { status: u16, message: String },
    /// The token is refused, the server lacks the command, the answer is not usable or cannot be
    /// printed, or the system provides no random bytes.
    #[error("{0}")]
    Unusable(String),
}

impl Failure {
    /// Returns `true` if a retry may succeed: the server was unreachable or answered 5xx.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Refused { status: 500.., .. })
    }

    /// Returns the exit code: 2 for invalid arguments, also by the server's 400; 1 for another
    /// refusal below 500; else 3.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Invalid(_) | Self::Refused { status: 400, .. } => 2,
            Self::Refused { status: ..500, .. } => 1,
            _ => 3,
        }
    }
}

pub(crate) type Parameter = (&'static str, String);

/// Client of one server's operator API. Paths are segments below `/admin`.
pub(crate) struct Api {
    base: Url,
    token: Option<String>,
    http: reqwest::Client,
}

impl Api {
    /// Selects the server and reads its token. Sends nothing. Fails if the address or token file is
    /// invalid, or `--dir` names a folder without a running mesh.
    pub(crate) fn new(args: &ServerArgs) -> Result<Self, Failure> {
        let mesh = LocalMesh::find(args.dir.as_deref());
        if let (None, Some(dir)) = (&mesh, &args.dir) {
            let why = format!("--dir: {} has no running mesh, or the mesh is not ready", dir.display());
            return Err(Failure::Invalid(why));
        }
        let of_mesh = mesh.as_ref().and_then(LocalMesh::server);
        let server = args.server.as_deref().or(of_mesh).unwrap_or(DEFAULT_SERVER);
        let text = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        let is_usable = |url: &Url| url.scheme() == "http" && url.host_str().is_some();
        let base = Url::parse(&text).ok().filter(is_usable).ok_or_else(|| {
            let hint = "pass http://HOST:PORT of a server's internal listener";
            Failure::Invalid(format!("--server: {server:?} is no address; {hint}"))
        })?;
        let token_file = args.secret_file.clone().or_else(|| mesh.as_ref()?.token_file(&base));
        let token = token_file.as_deref().map(read_secret).transpose()?;
        let http = reqwest::Client::builder()
            .no_proxy()
            .http1_only()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| Failure::Unreachable { server: text, why: error.to_string() })?;
        Ok(Self { base, token, http })
    }

    /// Sends `GET /admin/PATH` by [`send`](Self::send).
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Failure> {
        self.send(Method::GET, path, &[], None).await
    }

    /// Sends a request to `/admin/PATH` with `body` as JSON; `None`: without a body. Fails if no
    /// answer arrives within 10 s, its status is not 2xx, it exceeds 16 MiB, or it has other
    /// fields, as from a server of another release.
    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        query: &[Parameter],
        body: Option<Value>,
    ) -> Result<T, Failure> {
        let server = self.base.origin().ascii_serialization();
        let invalid = |why: String| Failure::Unusable(format!("{server} sent an invalid answer: {why}"));
        let mut url = self.base.clone();
        // A URL with a host has segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.clear().push("admin").extend(path);
        }
        let mut request = self.http.request(method, url).query(query);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let unreachable = |error: reqwest::Error| Failure::Unreachable { server: server.clone(), why: cause(&error) };
        let mut response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            answer.extend_from_slice(&chunk);
            if answer.len() > MAX_ANSWER_BYTES {
                return Err(invalid(format!("more than {MAX_ANSWER_BYTES} bytes")));
            }
        }
        if !status.is_success() {
            return Err(refused(&server, status, &answer));
        }
        serde_json::from_slice(&answer)
            .map_err(|error| invalid(format!("{error}; use mesh-ctl of the server's release")))
    }
}

/// A proxy in between may answer in another format.
fn refused(server: &str, status: StatusCode, answer: &[u8]) -> Failure {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let word = |name: &str| answer["error"][name].as_str().unwrap_or_default().to_owned();
    let message = word("message");
    match (status, word("code").as_str()) {
        (StatusCode::UNAUTHORIZED, _) => {
            Failure::Unusable(format!("{server} requires the admin token; pass its file by --secret-file"))
        }
        (StatusCode::NOT_FOUND, "not_found") => {
            let hint = "pass a node of this release to --server";
            Failure::Unusable(format!("{server} does not support this command; {hint}"))
        }
        _ if message.is_empty() && status.is_server_error() => {
            Failure::Refused { status: status.as_u16(), message: format!("{server} answers {status}") }
        }
        _ if message.is_empty() => Failure::Unusable(format!("{server} sent an invalid answer: {status}")),
        _ => Failure::Refused { status: status.as_u16(), message },
    }
}

/// Returns the text of the innermost cause, which is the most specific one.
fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Reads the first line that is not empty.
fn read_secret(path: &Path) -> Result<String, Failure> {
    let invalid = |why: String| Failure::Invalid(format!("--secret-file: {why}"));
    let text =
        std::fs::read_to_string(path).map_err(|error| invalid(format!("cannot read {}: {error}", path.display())))?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.filter(|line| line.bytes().all(|byte| byte.is_ascii_graphic()));
    let bad = || format!("{} has no line of printable ASCII; write the admin token there", path.display());
    line.map(str::to_owned).ok_or_else(|| invalid(bad()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_needs_no_scheme_and_a_bad_one_is_quoted() {
        let api = |server: &str| Api::new(&ServerArgs { server: Some(server.into()), secret_file: None, dir: None });
        assert!(api("127.0.0.1:7900").is_ok() && api("http://[::1]:7900/").is_ok());
        for bad in ["https://h:1", "ftp://h", "http://", ""] {
            let Err(failure) = api(bad) else { panic!("{bad} was taken") };
            assert_eq!(failure.exit_code(), 2, "{failure}");
        }
    }

    #[test]
    fn failure_has_its_exit_code_and_may_be_temporary() {
        for (status, code, message, expected) in [
            (400, "bad_name", "words", (2, false)),
            (401, "", "words", (3, false)),
            (404, "not_found", "words", (3, false)),
            (404, "no_such_node", "words", (1, false)),
            (409, "stopping", "words", (1, false)),
            (418, "", "", (3, false)),
            (502, "node_unreachable", "words", (3, true)),
            (503, "", "", (3, true)),
        ] {
            let answer = serde_json::json!({ "error": { "code": code, "message": message } }).to_string();
            let failure = refused("http://h:1", StatusCode::from_u16(status).unwrap(), answer.as_bytes());
            assert_eq!((failure.exit_code(), failure.is_temporary()), expected, "{status} {code}: {failure}");
        }
        let unreachable = Failure::Unreachable { server: "h".into(), why: "it takes no connections".into() };
        assert_eq!((unreachable.exit_code(), unreachable.is_temporary()), (3, true));
    }
}
