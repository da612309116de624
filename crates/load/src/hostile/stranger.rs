//! What each of the crowd does, until it is stopped.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{interval, sleep};

/// How often a handshake has another byte.
const DRIP: Duration = Duration::from_secs(1);
/// How often a deaf client writes to itself.
const SAY: Duration = Duration::from_secs(2);
/// How much.
const SAID_BYTES: usize = 8 * 1024;
/// How little the kernel takes for a deaf client.
const DEAF_BUFFER: u32 = 4 * 1024;
/// What refused and closed ones wait.
const PAUSE: Duration = Duration::from_secs(1);

/// How many of a kind are there now.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

struct Counted<'a>(&'a Count);

impl Count {
    pub(super) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn one_more(&self) -> Counted<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(self)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A handshake, byte by byte, again and again.
pub(super) async fn drip(from: IpAddr, to: SocketAddr, count: &Count) {
    let head = head("nobody");
    loop {
        if let Ok(mut stream) = connect(from, to, None).await {
            let _counted = count.one_more();
            let mut ticks = interval(DRIP);
            for byte in head.bytes() {
                tokio::select! {
                    _ = ticks.tick() => if stream.write_all(&[byte]).await.is_err() { break },
                    // Nobody has asked yet, so this is the end of it.
                    _ = stream.readable() => break,
                }
            }
        } else {
            sleep(PAUSE).await;
        }
    }
}

/// A client that writes to itself, and reads nothing at all: neither the answer to its request nor that its socket was closed.
pub(super) async fn deaf(name: &str, from: IpAddr, to: SocketAddr, count: &Count) {
    let text = format!(r#"{{"type":"signal","to":"{name}","data":"{}"}}"#, "x".repeat(SAID_BYTES));
    let text = masked_text(text.as_bytes());
    loop {
        if let Ok(mut stream) = connect(from, to, Some(DEAF_BUFFER)).await {
            let _counted = count.one_more();
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

async fn connect(from: IpAddr, to: SocketAddr, receive_buffer: Option<u32>) -> std::io::Result<TcpStream> {
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

/// A text frame of a client (RFC 6455 section 5.2). A mask of zeros changes nothing.
fn masked_text(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81];
    match u16::try_from(payload.len()) {
        Ok(length @ 126..) => {
            frame.push(0x80 | 126);
            frame.extend(length.to_be_bytes());
        }
        Ok(length) => frame.push(0x80 | length.to_be_bytes()[1]),
        Err(_) => {
            frame.push(0x80 | 127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

#[cfg(test)]
mod tests {
    use signaling_core::ws::{Decoder, Event, Limits};

    use super::*;

    #[test]
    fn a_frame_is_read_as_what_was_written_whatever_its_length() {
        for length in [0, 125, 126, 5_000, 65_535, 65_536] {
            let text = "x".repeat(length);
            let mut frame = masked_text(text.as_bytes());
            let mut decoder = Decoder::default();
            let mut input = decoder.feed(&mut frame, Limits { max_message_bytes: 100_000, ..Limits::default() });

            assert!(matches!(input.next(), Ok(Some(Event::Text(read))) if read == text.as_bytes()), "{length}");
        }
    }

    #[test]
    fn those_who_are_there_are_counted_until_they_are_gone() {
        let count = Count::default();
        let one = count.one_more();
        let other = count.one_more();

        drop(one);
        assert_eq!(count.now(), 1);
        drop(other);
        assert_eq!(count.now(), 0);
    }
}
