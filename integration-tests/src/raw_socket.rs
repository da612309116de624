//! A WebSocket client without automatic behaviour: it answers no ping and sends arbitrary bytes.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;

use crate::http::{Answer, Head, ask_on, connect, ends};

/// Longer than any time limit of a server, except heartbeats.
const FRAME_TIMEOUT: Duration = Duration::from_secs(15);

// First bytes of frames without continuation.
pub const TEXT: u8 = 0x81;
pub const BINARY: u8 = 0x82;
pub const CLOSE: u8 = 0x88;
pub const PING: u8 = 0x89;
pub const PONG: u8 = 0x8a;

/// An upgraded connection.
pub struct RawSocket {
    pub stream: TcpStream,
    /// The answer to the upgrade request.
    pub answer: Answer,
}

impl RawSocket {
    /// Connects a client to `HOST:PORT` or a URL, and reads its `welcome`. Panics if the server
    /// refuses it.
    pub async fn connect(address: &str, client_id: &str) -> Self {
        let mut socket = Self::open(address, &Head::connect(client_id)).await;
        assert_eq!(socket.message().await["type"], "welcome");
        socket
    }

    /// Connects and sends the head. Panics if the answer is no upgrade.
    pub async fn open(address: &str, head: &Head) -> Self {
        Self::over(connect(address).await, head.to_string().as_bytes()).await
    }

    /// Sends a request on an open connection. Panics if the answer is no upgrade.
    pub async fn over(stream: TcpStream, request: &[u8]) -> Self {
        let (answer, stream) = ask_on(stream, request).await;
        assert_eq!(answer.status, 101, "{answer:?}");
        Self { stream, answer }
    }

    /// Writes bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Returns the first byte and the payload of the next frame. Panics after 15 s without any, or
    /// at the end of the connection.
    pub async fn frame(&mut self) -> (u8, Vec<u8>) {
        timeout(FRAME_TIMEOUT, self.read_frame()).await.expect("no frame in time")
    }

    async fn read_frame(&mut self) -> (u8, Vec<u8>) {
        let first = self.stream.read_u8().await.expect("the end instead of a frame");
        let length = match self.stream.read_u8().await.unwrap() {
            short @ 0..=125 => u64::from(short),
            126 => u64::from(self.stream.read_u16().await.unwrap()),
            127 => self.stream.read_u64().await.unwrap(),
            masked => panic!("a server's frame is masked: {masked:#x}"),
        };
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut payload).await.unwrap();
        (first, payload)
    }

    /// Returns the next text message. Answers pings before it, and discards other frames. Panics on
    /// a close frame.
    pub async fn message(&mut self) -> Value {
        loop {
            match self.frame().await {
                (TEXT, payload) => return serde_json::from_slice(&payload).unwrap(),
                (CLOSE, payload) => panic!("closed instead of a message: {payload:?}"),
                (PING, payload) => self.send(&frame(PONG, &payload)).await,
                _ => {}
            }
        }
    }

    /// Waits for the close frame, and returns its code and reason; 1005 without a code. Discards
    /// other frames. Panics after 15 s without a frame, or if the connection outlives it by 2 s.
    pub async fn closed(&mut self) -> (u16, String) {
        loop {
            let (first, payload) = self.frame().await;
            if first == CLOSE {
                let is_ended = ends(&mut self.stream, Duration::from_secs(2)).await;
                assert!(is_ended, "the connection outlives its close frame");
                let code = payload.first_chunk().map_or(1005, |&code| u16::from_be_bytes(code));
                return (code, String::from_utf8(payload.get(2..).unwrap_or_default().to_vec()).unwrap());
            }
        }
    }
}

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Encodes a client frame: masked, with its length in the shortest form.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = header(first, payload.len() as u64);
    bytes.extend_from_slice(&KEY);
    bytes.extend(payload.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

/// Encodes the start of a masked frame, up to its key, for a payload of `length` bytes.
pub fn header(first: u8, length: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    FrameHeader { mask: Some(KEY), ..FrameHeader::default() }.format(length, &mut bytes).unwrap();
    bytes[0] = first;
    bytes.truncate(bytes.len() - KEY.len());
    bytes
}
