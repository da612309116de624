//! HTTP requests as raw text, including malformed ones, and their answers.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::mesh::admin_token;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(15);

/// The head of a request, which tests can malform.
#[derive(Clone)]
pub struct Head {
    method: String,
    target: String,
    version: String,
    lines: Vec<(String, String)>,
}

impl Head {
    pub fn get(target: &str) -> Self {
        let head = Self { method: "GET".into(), target: target.into(), version: "HTTP/1.1".into(), lines: Vec::new() };
        head.with("Host", "mesh.test")
    }

    pub fn upgrade(target: &str) -> Self {
        Self::get(target)
            .with("Upgrade", "websocket")
            .with("Connection", "Upgrade")
            .with("Sec-WebSocket-Version", "13")
            .with("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    }

    pub fn connect(client_id: &str) -> Self {
        Self::upgrade(&format!("/v1/connect?client_id={client_id}"))
    }

    pub fn method(self, method: &str) -> Self {
        Self { method: method.into(), ..self }
    }

    pub fn version(self, version: &str) -> Self {
        Self { version: version.into(), ..self }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.lines.push((name.into(), value.into()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.lines.retain(|(other, _)| other != name);
        self
    }

    pub fn replace(self, name: &str, value: &str) -> Self {
        self.without(name).with(name, value)
    }

    /// Returns the text on the wire.
    pub fn text(&self) -> String {
        let lines: String = self.lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{} {} {}\r\n{lines}\r\n", self.method, self.target, self.version)
    }
}

/// Answer of a server.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub fn error_code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let body: Value = serde_json::from_str(&self.body).unwrap();
        let error = body["error"].as_object().unwrap();
        assert!(body.as_object().unwrap().len() == 1 && error.len() == 2, "{self:?}");
        assert!(error["message"].as_str().unwrap().len() > 5, "{self:?}");
        error["code"].as_str().unwrap().to_owned()
    }
}

/// Sends `request` on a connection of its own. Unless the answer is an upgrade, the server must end
/// the connection.
pub async fn ask(address: &str, request: impl AsRef<[u8]>) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_ref()).await.unwrap();
    let answer = read_answer(&mut stream).await;
    if answer.status != 101 {
        assert!(ends(&mut stream, PATIENCE).await, "the connection stays open after {answer:?}");
    }
    answer
}

/// Sends `bytes`. Returns all text up to the end of the connection, and `true` if the connection
/// ends cleanly.
pub async fn ask_to_the_end(mut stream: TcpStream, bytes: &[u8]) -> (String, bool) {
    stream.write_all(bytes).await.unwrap();
    let mut said = Vec::new();
    let end = timeout(PATIENCE, stream.read_to_end(&mut said)).await.expect("the connection stays open");
    (String::from_utf8_lossy(&said).into_owned(), end.is_ok())
}

/// Requests a page from a server's internal listener (`http://HOST:PORT`).
pub async fn get(internal: &str, path: &str) -> Answer {
    ask_internal(internal, Head::get(path)).await
}

/// Sends an operator's `POST /admin/...` to a server.
pub async fn admin(internal: &str, what: &str) -> Value {
    let mut head = Head::get(&format!("/admin/{what}")).method("POST");
    if let Some(token) = admin_token(internal) {
        head = head.with("Authorization", &format!("Bearer {token}"));
    }
    let answer = ask_internal(internal, head).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

async fn ask_internal(internal: &str, head: Head) -> Answer {
    ask(internal.trim_start_matches("http://"), head.with("Connection", "close").text()).await
}

/// Creates a request of an operator, with the admin token of the mesh that this process started.
pub fn operator(internal: &str, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let request = http.request(method, format!("{internal}/admin/{path}"));
    match admin_token(internal) {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

/// Reads exactly one answer.
pub async fn read_answer(stream: &mut TcpStream) -> Answer {
    timeout(PATIENCE, read(stream)).await.expect("no answer in time")
}

async fn read(stream: &mut TcpStream) -> Answer {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(
            stream
                .read_u8()
                .await
                .unwrap_or_else(|error| panic!("{error} after {:?}", head.escape_ascii().to_string())),
        );
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<_> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    Answer { status, headers, body: String::from_utf8(body).unwrap() }
}

/// Returns `true` if the server ends the connection within `limit`. Discards input until then.
pub async fn ends(stream: &mut TcpStream, limit: Duration) -> bool {
    let mut ignored = [0; 4096];
    timeout(limit, async { while matches!(stream.read(&mut ignored).await, Ok(1..)) {} }).await.is_ok()
}
