//! Byte streams to servers. `socket` opens its WebSockets on them.

use std::future::Future;
use std::io;

use http::Uri;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Opens byte streams. Implement it for a proxy or a simulated network; [`Tcp`] serves all else.
pub trait Dial: Send + Sync + 'static {
    /// Byte stream to a server. The client adds TLS for `wss` URLs.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Opens a stream to the host and port of this URL. The client drops the future to cancel it:
    /// 10 s after the start of the attempt, or when the client is closed.
    ///
    /// # Errors
    /// If the server cannot be reached. The client drops the error and reports
    /// [`Fault::Unreachable`](crate::Fault::Unreachable).
    fn dial(&self, url: &Uri) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// Dialer of TCP connections, without a proxy. The default port is 80, or 443 for `wss`.
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
