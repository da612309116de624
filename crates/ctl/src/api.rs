//! Requests to the operator API of one server, for `run` and `drain`, and their errors.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
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
/// Default listen address of a server.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7900";
/// Maximum bytes that are read of a secret file.
const MAX_SECRET_BYTES: u64 = 4_096;

/// Reason why a command failed. Texts are for the operator and name the option at fault.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("--server: {0:?} is no address; pass http://HOST:PORT of a server's internal listener")]
    Address(String),
    #[error("--dir: {} has no running mesh, or the mesh is not ready", .0.display())]
    NoMesh(PathBuf),
    #[error("--secret-file: cannot read {}: {error}", path.display())]
    Secret { path: PathBuf, error: io::Error },
    #[error("--secret-file: {} has no line of printable ASCII; write the admin token there", .0.display())]
    BadSecret(PathBuf),
    #[error("cannot reach {server}: {why}")]
    Unreachable { server: String, why: String },
    #[error("{0} requires the admin token; pass its file by --secret-file")]
    Unauthorized(String),
    #[error("{0} does not support this command; pass a node of this release to --server")]
    NoSuchRoute(String),
    #[error("{message}")]
    Refused { status: u16, message: String },
    #[error("{server} sent an invalid answer: {why}")]
    InvalidAnswer { server: String, why: String },
    #[error("cannot write the answer: {0}")]
    Output(io::Error),
}

impl Failure {
    /// Returns `true` if a retry may succeed: the server was unreachable or answered 5xx.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Refused { status: 500.., .. })
    }

    /// Returns the exit code: 2 for invalid arguments, 1 if the server denies the request, else 3.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Address(_) | Self::NoMesh(_) | Self::Secret { .. } | Self::BadSecret(_) => 2,
            Self::Refused { status: 400, .. } => 2,
            Self::Refused { status: ..500, .. } => 1,
            _ => 3,
        }
    }
}

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
            return Err(Failure::NoMesh(dir.clone()));
        }
        let of_mesh = mesh.as_ref().and_then(LocalMesh::server);
        let server = args.server.as_deref().or(of_mesh).unwrap_or(DEFAULT_SERVER);
        let bad = || Failure::Address(server.to_owned());
        let text = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        let base = Url::parse(&text).map_err(|_| bad())?;
        if base.scheme() != "http" || base.host_str().is_none() || base.cannot_be_a_base() {
            return Err(bad());
        }
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

    /// Sends `GET /admin/PATH` by [`ask`](Self::ask). Returns the answer as JSON and decoded.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<(Value, T), Failure> {
        self.ask(Method::GET, path, None).await
    }

    /// Sends a request to `/admin/PATH`. Returns the answer as JSON and decoded.
    ///
    /// # Errors
    /// Those of [`send`](Self::send) and [`decode`](Self::decode).
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        body: Option<Value>,
    ) -> Result<(Value, T), Failure> {
        let answer = self.send(method, path, &[], body).await?;
        let decoded = self.decode(&answer)?;
        Ok((answer, decoded))
    }

    /// Sends a request to `/admin/PATH`. Returns the answer as JSON. Fails if no answer arrives
    /// within 10 s, its status is not 2xx, or it is no JSON of at most 16 MiB.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<Value>,
    ) -> Result<Value, Failure> {
        let server = self.base.origin().ascii_serialization();
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => {
                segments.clear().push("admin").extend(path);
            }
            Err(()) => return Err(Failure::Address(server)),
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.http.request(method, url);
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
                return Err(Failure::InvalidAnswer { server, why: format!("more than {MAX_ANSWER_BYTES} bytes") });
            }
        }
        match serde_json::from_slice(&answer) {
            Ok(answer) if status.is_success() => Ok(answer),
            Ok(answer) => Err(refused(server, status, &answer)),
            // A proxy in between may answer in another format.
            Err(_) if status.is_server_error() => Err(refused(server, status, &Value::Null)),
            Err(error) => Err(Failure::InvalidAnswer { server, why: format!("{status}, {error}") }),
        }
    }

    /// Decodes an answer. Fails if it has other fields, as from a server of another release.
    pub(crate) fn decode<T: DeserializeOwned>(&self, answer: &Value) -> Result<T, Failure> {
        T::deserialize(answer).map_err(|error| {
            let server = self.base.origin().ascii_serialization();
            Failure::InvalidAnswer { server, why: format!("{error}; use mesh-ctl of the server's release") }
        })
    }
}

fn refused(server: String, status: StatusCode, answer: &Value) -> Failure {
    let word = |name: &str| answer["error"][name].as_str().unwrap_or_default().to_owned();
    let message = word("message");
    match (status, word("code").as_str()) {
        (StatusCode::UNAUTHORIZED, _) => Failure::Unauthorized(server),
        (StatusCode::NOT_FOUND, "not_found") => Failure::NoSuchRoute(server),
        _ if message.is_empty() && status.is_server_error() => {
            Failure::Refused { status: status.as_u16(), message: format!("{server} answers {status}") }
        }
        _ if message.is_empty() => Failure::InvalidAnswer { server, why: status.to_string() },
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
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SECRET_BYTES).read_to_string(&mut text));
    read.map_err(|error| Failure::Secret { path: path.into(), error })?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.filter(|line| line.bytes().all(|byte| byte.is_ascii_graphic()));
    line.map(str::to_owned).ok_or_else(|| Failure::BadSecret(path.into()))
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
    fn each_failure_has_its_exit_code() {
        let refused = |status| {
            let answer = serde_json::json!({ "error": { "code": "some_code", "message": "some words" } });
            refused("http://h:1".into(), StatusCode::from_u16(status).unwrap(), &answer).exit_code()
        };
        assert_eq!([400, 401, 404, 409, 502, 503].map(refused), [2, 3, 1, 1, 3, 3]);
    }

    #[test]
    fn temporary_failures_may_be_retried() {
        let answered = |status, answer: &Value| refused("h".into(), StatusCode::from_u16(status).unwrap(), answer);
        let unreachable = Failure::Unreachable { server: "h".into(), why: "it takes no connections".into() };
        assert!(
            unreachable.is_temporary() && answered(503, &Value::Null).is_temporary(),
            "also without a message of the server"
        );
        for (status, code) in [(401, ""), (404, "not_found"), (404, "no_such_node"), (418, "")] {
            let answer = serde_json::json!({ "error": { "code": code, "message": "words" } });
            assert!(!answered(status, &answer).is_temporary(), "{status} {code}");
        }
    }
}
