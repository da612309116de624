//! Taking the socket back after an upgrade.

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The upgraded connection was not made by [`serve_connection`](super::serve_connection).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the upgraded connection is not a plain TCP stream")]
pub struct UpgradeError;

/// The bare socket of an upgraded connection, and what was read behind the request's head. The HTTP buffers are gone, so an
/// idle socket holds none.
///
/// # Errors
/// If the connection was served by something else than `serve_connection`, or over something else than TCP.
pub fn upgraded_tcp(upgraded: Upgraded) -> Result<(TcpStream, Bytes), UpgradeError> {
    upgraded_from(upgraded).map_err(|_| UpgradeError)
}

/// The same of a connection that was served over any other stream.
///
/// # Errors
/// Gives the connection back if it was served over something else.
pub fn upgraded_from<S>(upgraded: Upgraded) -> Result<(S, Bytes), Upgraded>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let parts = upgraded.downcast::<TokioIo<S>>()?;
    // A copy: the few bytes, or none, must not keep the whole read buffer alive.
    Ok((parts.io.into_inner(), Bytes::copy_from_slice(&parts.read_buf)))
}
