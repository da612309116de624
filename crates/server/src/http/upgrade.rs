//! Recovery of the socket after an upgrade, for client WebSockets and trunks.

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The upgraded connection has a stream of an unexpected type: it was not served by
/// [`serve_connection`](super::serve_connection), or over another transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the upgraded connection has a stream of an unexpected type")]
pub struct UpgradeError;

/// Returns the socket of an upgraded connection, and the bytes read after the request head.
/// The HTTP buffers are freed, so an idle socket holds none.
///
/// # Errors
/// If the connection was not served by `serve_connection` over TCP.
pub fn upgraded_tcp(upgraded: Upgraded) -> Result<(TcpStream, Bytes), UpgradeError> {
    upgraded_from(upgraded).map_err(|_| UpgradeError)
}

/// Returns the stream (`S`) of an upgraded connection, and the bytes read after the request head.
///
/// # Errors
/// Returns the connection if its stream has another type.
pub fn upgraded_from<S>(upgraded: Upgraded) -> Result<(S, Bytes), Upgraded>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let parts = upgraded.downcast::<TokioIo<S>>()?;
    // A copy does not keep the whole read buffer alive.
    Ok((parts.io.into_inner(), Bytes::copy_from_slice(&parts.read_buf)))
}
