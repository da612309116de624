use std::io::{Error, Result};
use std::net::TcpStream;
use std::time::Duration;

use mio::net::TcpStream as Socket;
use tokio_tungstenite::tungstenite::accept_hdr;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

/// How long all others wait for one whose upgrade does not come, at most.
const UPGRADE_WITHIN: Duration = Duration::from_secs(1);

/// Shakes hands; also what the client is called. It does not send before it has its answer, so that nothing is lost with
/// the buffer of who has read it.
pub(super) fn upgrade(stream: TcpStream) -> Result<(Socket, String)> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(UPGRADE_WITHIN))?;
    let mut name = String::new();
    #[expect(clippy::result_large_err, reason = "it is the library's signature, and nothing fails here")]
    let heard = |request: &Request, response: Response| {
        let query = request.uri().query().unwrap_or_default();
        query.split('&').find_map(|part| part.strip_prefix("client_id=")).unwrap_or_default().clone_into(&mut name);
        Ok(response)
    };
    let upgraded = accept_hdr(stream, heard).map_err(|error| Error::other(error.to_string()))?;
    let stream = upgraded.get_ref().try_clone()?;
    Ok((without_waiting(stream)?, name))
}

/// A socket that is read and written when it is ready, each write at once.
pub(super) fn without_waiting(stream: TcpStream) -> Result<Socket> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(Socket::from_std(stream))
}
