//! The behavior of each hostile client.

use std::io::Result;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{interval, sleep};
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::crowd::Headcount;

/// Interval between two bytes of a handshake.
const DRIP: Duration = Duration::from_secs(1);
/// Interval between two messages of a deaf client.
const SAY: Duration = Duration::from_secs(2);
const SAID_BYTES: usize = 8 * 1024;
/// Receive buffer of a deaf client, in bytes.
const DEAF_BUFFER: u32 = 4 * 1024;
/// Wait after a refusal or a close.
const PAUSE: Duration = Duration::from_secs(1);

/// Sends handshakes byte by byte, repeatedly.
pub(super) async fn drip(from: IpAddr, to: SocketAddr, present: &Headcount) {
    let head = head("nobody");
    loop {
        if let Ok(mut stream) = connect(from, to, None).await {
            let _present = Headcount::clone(present);
            let mut ticks = interval(DRIP);
            for byte in head.bytes() {
                tokio::select! {
                    _ = ticks.tick() => if stream.write_all(&[byte]).await.is_err() { break },
                    // The request is incomplete, so readability means a close.
                    _ = stream.readable() => break,
                }
            }
        } else {
            sleep(PAUSE).await;
        }
    }
}

/// Runs a client that sends to itself and reads nothing, neither the upgrade's answer nor a close.
pub(super) async fn deaf(name: &str, from: IpAddr, to: SocketAddr, present: &Headcount) {
    let text = format!(r#"{{"type":"signal","to":"{name}","data":"{}"}}"#, "x".repeat(SAID_BYTES));
    let mut frame = Frame::message(text, OpCode::Data(Data::Text), true);
    // A mask of zeros changes nothing.
    frame.header_mut().mask = Some([0; 4]);
    let mut text = Vec::new();
    // Writing to a vector cannot fail.
    let _ = frame.format(&mut text);
    loop {
        if let Ok(mut stream) = connect(from, to, Some(DEAF_BUFFER)).await {
            let _present = Headcount::clone(present);
            let mut ticks = interval(SAY);
            let mut said = stream.write_all(head(name).as_bytes()).await;
            while said.is_ok() {
                ticks.tick().await;
                said = stream.write_all(&text).await;
            }
        }
        sleep(PAUSE).await;
    }
}

async fn connect(from: IpAddr, to: SocketAddr, receive_buffer: Option<u32>) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(bytes) = receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(SocketAddr::new(from, 0))?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn head(client_id: &str) -> String {
    format!(
        "GET /v1/connect?client_id={client_id} HTTP/1.1\r\nHost: mesh\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}
