//! HTTP requests as raw text, including malformed ones, and their answers.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::mesh::admin_token;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The head of a request, which tests can malform.
#[derive(Clone)]
pub struct Head {
    method: String,
    target: String,
    version: String,
    lines: Vec<(String, String)>,
}

impl Head {
    /// Creates the head of a GET.
    pub fn get(target: &str) -> Self {
        let head = Self { method: "GET".into(), target: target.into(), version: "HTTP/1.1".into(), lines: Vec::new() };
        head.with("Host", "mesh.test")
    }

    /// Creates the head of a POST without a body.
    pub fn post(target: &str) -> Self {
        Self::get(target).method("POST").with("Content-Length", "0")
    }

    /// Creates the head of a WebSocket upgrade.
    pub fn upgrade(target: &str) -> Self {
        Self::get(target)
            .with("Upgrade", "websocket")
            .with("Connection", "Upgrade")
            .with("Sec-WebSocket-Version", "13")
            .with("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    }

    /// Creates the upgrade request of a client.
    pub fn connect(client_id: &str) -> Self {
        Self::upgrade(&format!("/v1/connect?client_id={client_id}"))
    }

    /// Replaces the method.
    pub fn method(self, method: &str) -> Self {
        Self { method: method.into(), ..self }
    }

    /// Replaces the version, `HTTP/1.1`.
    pub fn version(self, version: &str) -> Self {
        Self { version: version.into(), ..self }
    }

    /// Adds a header line, also if the name is present.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.lines.push((name.into(), value.into()));
        self
    }

    /// Removes all header lines of this name, in the same case.
    pub fn without(mut self, name: &str) -> Self {
        self.lines.retain(|(other, _)| other != name);
        self
    }

    /// Replaces all header lines of this name, in the same case, by one at the end.
    pub fn replace(self, name: &str, value: &str) -> Self {
        self.without(name).with(name, value)
    }

    /// Adds an `Authorization` header with a bearer token.
    pub fn bearer(self, token: &str) -> Self {
        self.with("Authorization", &format!("Bearer {token}"))
    }

    /// Creates three requests of a client, each with the token in another place.
    pub fn with_token(client_id: &str, token: &str) -> [Self; 3] {
        [
            Self::connect(client_id).bearer(token),
            Self::connect(client_id).offer(&format!("bearer.{token}")),
            Self::upgrade(&format!("/v1/connect?client_id={client_id}&token={token}")),
        ]
    }

    /// Offers these WebSocket subprotocols.
    pub fn offer(self, subprotocols: &str) -> Self {
        self.with("Sec-WebSocket-Protocol", subprotocols)
    }
}

/// The text on the wire.
impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}\r\n", self.method, self.target, self.version)?;
        self.lines.iter().try_for_each(|(name, value)| write!(f, "{name}: {value}\r\n"))?;
        f.write_str("\r\n")
    }
}

/// Answer of a server.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// Returns the first header of this lower-case name, if there is one.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns the `code` of a refusal, `{"error":{"code","message"}}`. Panics if the body has
    /// another form.
    pub fn error_code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let body: Value = serde_json::from_str(&self.body).unwrap();
        let error = body["error"].as_object().unwrap();
        assert!(body.as_object().unwrap().len() == 1 && error.len() == 2, "{self:?}");
        assert!(error["message"].as_str().unwrap().len() > 5, "{self:?}");
        error["code"].as_str().unwrap().to_owned()
    }
}

/// Returns the `HOST:PORT` of a URL without a path, or of an address without a scheme.
pub fn host(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, host)| host)
}

/// Connects to an address or a URL without a path. Panics if no connection is accepted.
pub async fn connect(address: &str) -> TcpStream {
    TcpStream::connect(host(address)).await.unwrap()
}

/// Connects from another loopback address of this machine, to `IP:PORT` or a URL without a path.
pub async fn connect_from(local: [u8; 4], address: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((local, 0).into()).unwrap();
    socket.connect(host(address).parse().unwrap()).await.unwrap()
}

/// Sends `request` on a connection of its own, and returns the answer. Unless it is an upgrade, the
/// server must end the connection within 15 s.
pub async fn ask(address: &str, request: impl fmt::Display) -> Answer {
    let (answer, mut stream) = ask_on(connect(address).await, request.to_string().as_bytes()).await;
    if answer.status != 101 {
        assert!(ends(&mut stream, ANSWER_TIMEOUT).await, "the connection stays open after {answer:?}");
    }
    answer
}

/// Sends a request that must be refused with this status and code. Returns the answer.
pub async fn refused(address: &str, request: impl fmt::Display, (status, code): (u16, &str)) -> Answer {
    let answer = ask(address, &request).await;
    assert_eq!((answer.status, answer.error_code().as_str()), (status, code), "{request}: {answer:?}");
    answer
}

/// Sends bytes and reads the answer. Returns the connection too, which stays open. Panics if the
/// answer is incomplete after 15 s.
pub async fn ask_on<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, bytes: &[u8]) -> (Answer, S) {
    stream.write_all(bytes).await.unwrap();
    let answer = timeout(ANSWER_TIMEOUT, read_answer(&mut stream, bytes.starts_with(b"HEAD ")))
        .await
        .expect("no answer in time");
    (answer, stream)
}

/// Sends `bytes`. Returns all bytes up to the end of the connection, and `true` if the connection
/// ends cleanly. Panics if it is open after 15 s.
pub async fn ask_to_the_end(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) -> (Vec<u8>, bool) {
    stream.write_all(bytes).await.unwrap();
    let mut received = Vec::new();
    let end = timeout(ANSWER_TIMEOUT, stream.read_to_end(&mut received)).await.expect("the connection stays open");
    (received, end.is_ok())
}

/// Requests the page at `path`, such as `/metrics`, from a server's internal listener.
pub async fn get(internal: &str, path: &str) -> Answer {
    ask(internal, Head::get(path).replace("Host", host(internal)).with("Connection", "close")).await
}

/// Sends an operator's request without a body, as [`operator`] does. Returns the JSON of the
/// answer. Panics unless its status is 200.
pub async fn admin(internal: &str, method: &str, path: &str) -> Value {
    let (status, answer) = operator(internal, method, path, None).await;
    assert_eq!(status, 200, "{method} {path}: {answer}");
    answer
}

/// Sends an operator's request for `/admin/PATH` to a server's internal listener. Adds the admin
/// token, if this process started the mesh. Returns the status and the JSON of the answer; panics
/// if the body is no JSON.
pub async fn operator(internal: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let head = Head::get(&format!("/admin/{path}")).method(method).with("Connection", "close");
    let head = admin_token(internal).map_or(head.clone(), |token| head.bearer(&token));
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let head = head.with("Content-Type", "application/json").with("Content-Length", &body.len().to_string());
    let answer = ask(internal, format!("{head}{body}")).await;
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

/// Reads one answer, whose body has a `Content-Length` or is empty. With `is_head` it is empty.
async fn read_answer(stream: &mut (impl AsyncRead + Unpin), is_head: bool) -> Answer {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = stream.read_u8().await;
        head.push(byte.unwrap_or_else(|error| panic!("{error} after {:?}", head.escape_ascii().to_string())));
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
    let mut body = vec![0; if is_head { 0 } else { length }];
    stream.read_exact(&mut body).await.unwrap();
    Answer { status, headers, body: String::from_utf8(body).unwrap() }
}

/// Returns `true` if the server ends the connection within `limit`. Discards input until then.
pub async fn ends(stream: &mut TcpStream, limit: Duration) -> bool {
    let mut ignored = [0; 4096];
    timeout(limit, async { while matches!(stream.read(&mut ignored).await, Ok(1..)) {} }).await.is_ok()
}
