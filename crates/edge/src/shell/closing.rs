//! The end of a socket: last words, then the client's own close, or not much longer.

use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::wire::WireWriter;

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long the client may take to close its side. Without this wait, bytes of it that arrive late would make the kernel
/// reset the connection, and the close frame might never be read.
const FAREWELL: Duration = Duration::from_millis(500);

/// Writes `last_words`, half-closes, reads until the client closes too.
pub(super) async fn close(writer: Rc<WireWriter>, last_words: Vec<u8>) {
    if timeout(LAST_WORDS, write_all(&writer, &last_words)).await.is_ok_and(|written| written.is_ok()) {
        // Whatever ends the wait, the socket is dropped now.
        let _ = timeout(FAREWELL, read_to_end(writer.stream())).await;
    }
}

async fn write_all(writer: &WireWriter, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        writer.writable().await?;
        match writer.try_write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    writer.finish().await
}

async fn read_to_end(stream: &TcpStream) {
    let mut ignored = [0; 1024];
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut ignored) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
