//! Ways to a server: a byte stream, on which the client then speaks WebSocket.

use std::future::Future;
use std::io;

use http::Uri;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Opens byte streams. [`Tcp`] serves everybody who has no proxy to go through, and no network to make up for a test.
pub trait Dial: Send + Sync + 'static {
    /// What it opens. TLS is added to it where the URL says `wss`.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Opens a stream to the server of this URL. The client gives up by dropping the future.
    ///
    /// # Errors
    /// If nobody answers there.
    fn dial(&self, url: &Uri) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// Plain TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Dial for Tcp {
    type Stream = TcpStream;

    async fn dial(&self, url: &Uri) -> io::Result<TcpStream> {
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
        let default = if url.scheme_str() == Some("wss") { 443 } else { 80 };
        let stream = TcpStream::connect((host, url.port_u16().unwrap_or(default))).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}
