//! The end of a socket, a client's or a refused one: writes the close frame and waits a short time
//! for the client's own close.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client_socket::TaskSocket;

/// Time limit for the last bytes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum bytes of a client that are discarded. One that sends more does not react to the close.
const MAX_IGNORED_BYTES: usize = 1024 * 1024;
/// Time for the client to close its side. Without this wait, late bytes would make the kernel reset
/// the connection and could destroy the close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Writes the last frames within 2 s, half-closes, and reads until the client closes too, at most
/// 500 ms or 1 MiB. Drops the socket, at once if the write fails.
pub(super) async fn close(mut stream: TaskSocket, last_frames: Vec<u8>) {
    if timeout(WRITE_TIMEOUT, write_all(&mut stream, &last_frames)).await.is_ok_and(|written| written.is_ok()) {
        // The socket is dropped for any result.
        let _ = timeout(CLOSE_TIMEOUT, read_to_end(stream.tcp())).await;
    }
}

async fn write_all(socket: &mut TaskSocket, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        socket.writable().await?;
        match socket.try_write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    socket.finish().await
}

async fn read_to_end(stream: &TcpStream) {
    let (mut buffer, mut ignored) = ([0; 4096], 0);
    while ignored < MAX_IGNORED_BYTES && stream.readable().await.is_ok() {
        match stream.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => ignored += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
        // A flooding client is always readable. Other clients and this timeout need their turn.
        tokio::task::yield_now().await;
    }
}
