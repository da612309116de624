//! The DevTools protocol: commands, answers and events as JSON over one WebSocket.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::upstream::installed_file;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// The connection to a browser. Runs one command at a time. In between it collects complaints from
/// events, and answers intercepted requests for files of packages.
pub(super) struct Devtools(Mutex<Link>);

struct Link {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    last_id: u64,
    /// Errors on pages, each behind its session.
    complaints: Vec<(String, String)>,
}

impl Devtools {
    pub(super) async fn connect(url: &str) -> Self {
        let (socket, _) = connect_async(url).await.unwrap();
        Self(Mutex::new(Link { socket, last_id: 0, complaints: Vec::new() }))
    }

    /// Sends a command to the browser, or to the page of a session, and returns the answer.
    pub(super) async fn call(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        let mut link = self.0.lock().await;
        let answer = timeout(ANSWER_TIMEOUT, link.call(session, method, params)).await;
        answer.unwrap_or_else(|_| panic!("Chromium does not answer {method}"))
    }

    /// Returns all errors so far on the page of a session.
    pub(super) async fn complaints(&self, session: &str) -> Vec<String> {
        let complaints = &self.0.lock().await.complaints;
        complaints.iter().filter(|(of, _)| of == session).map(|(_, text)| text.clone()).collect()
    }
}

impl Link {
    async fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Value {
        let id = self.send(session, method, params).await;
        loop {
            let mut message = self.receive().await;
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            if message["method"] == "Fetch.requestPaused" {
                self.fulfill(&message).await;
            }
            self.complaints.extend(complaint(&message));
        }
    }

    /// Sends a command and returns its id.
    async fn send(&mut self, session: Option<&str>, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        self.socket.send(Message::text(command.to_string())).await.unwrap();
        self.last_id
    }

    /// Answers an intercepted request as a CDN of packages does.
    async fn fulfill(&mut self, event: &Value) {
        let params = &event["params"];
        let file = installed_file(params["request"]["url"].as_str().unwrap());
        let headers = json!([
            { "name": "Access-Control-Allow-Origin", "value": "*" },
            { "name": "Content-Type", "value": "text/javascript" },
        ]);
        let answer = json!({
            "requestId": params["requestId"],
            "responseCode": if file.is_some() { 200 } else { 404 },
            "responseHeaders": headers,
            "body": STANDARD.encode(file.unwrap_or_default()),
        });
        self.send(event["sessionId"].as_str(), "Fetch.fulfillRequest", answer).await;
    }

    async fn receive(&mut self) -> Value {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("instead of an answer of Chromium: {other:?}"),
            }
        }
    }
}

/// Returns the session of an event and the error in it: an uncaught exception, a failed load, or a
/// `console.error`.
fn complaint(event: &Value) -> Option<(String, String)> {
    let params = &event["params"];
    let text = match event["method"].as_str()? {
        "Runtime.exceptionThrown" => {
            let details = &params["exceptionDetails"];
            details["exception"]["description"].as_str().or(details["text"].as_str())?.to_owned()
        }
        "Runtime.consoleAPICalled" if params["type"] == "error" => params["args"].to_string(),
        "Log.entryAdded" if params["entry"]["level"] == "error" => {
            format!("{} {}", params["entry"]["text"], params["entry"]["url"])
        }
        _ => return None,
    };
    Some((event["sessionId"].as_str()?.to_owned(), text))
}
