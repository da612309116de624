//! Connecting a trunk to a node, for a balancer's trunk manager.

use ::http::HeaderValue;
use signaling_wire::trunk::{EDGE_HEADER, INTERNAL_PORT_HEADER, PATH, SUBPROTOCOL};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{self, client::IntoClientRequest as _, protocol::Role};
use tokio_util::io::InspectReader;

use super::{PolledStream, Trunk, config};
use crate::MeshSecret;

/// The connecting end of a trunk, among the sockets of an edge's event loop.
pub type OutboundTrunk = Trunk<PolledStream>;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// Connects a trunk to the node at `address` (`HOST:PORT`). Panics outside a Tokio runtime with
/// I/O. Has no time limit. The request carries this server's id and internal port.
///
/// # Errors
/// If the node cannot be reached or refuses the upgrade, or `address` or `own_id` cannot be sent.
pub async fn open(
    address: &str,
    secret: &MeshSecret,
    own_id: &str,
    own_internal_port: u16,
) -> Result<OutboundTrunk, tungstenite::Error> {
    let mut request = format!("ws://{address}{PATH}").into_client_request()?;
    let headers = request.headers_mut();
    headers.insert(::http::header::AUTHORIZATION, secret.bearer());
    headers.insert(::http::header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    headers.insert(EDGE_HEADER, HeaderValue::from_str(own_id).map_err(::http::Error::from)?);
    headers.insert(INTERNAL_PORT_HEADER, HeaderValue::from(own_internal_port));
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut read = Vec::new();
    let inspected = InspectReader::new(stream, |bytes: &[u8]| read.extend_from_slice(bytes));
    let (socket, _) = tokio_tungstenite::client_async_with_config(request, inspected, Some(config())).await?;
    let stream = mio::net::TcpStream::from_std(socket.into_inner().into_inner().into_std()?);
    Ok(Trunk::new(PolledStream::new(stream), behind_head(&read), Role::Client))
}

/// Returns the bytes behind the head of a response without a body.
fn behind_head(read: &[u8]) -> &[u8] {
    let head = read.windows(HEAD_END.len()).position(|window| window == HEAD_END);
    head.and_then(|at| read.get(at + HEAD_END.len()..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

    use super::*;

    /// A node whose response and first frame arrive together.
    async fn answer(listener: TcpListener) -> TcpStream {
        let mut stream = listener.accept().await.unwrap().0;
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut request).await.unwrap();
        }
        let request = String::from_utf8(request).unwrap();
        let header = |name: &str| {
            let of_name = |line: &&str| line.to_lowercase().starts_with(name);
            request.lines().find(of_name).unwrap().split(": ").nth(1).unwrap().to_owned()
        };
        let key = derive_accept_key(header("sec-websocket-key:").as_bytes());
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
             sec-websocket-accept: {key}\r\nsec-websocket-protocol: {SUBPROTOCOL}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), &[0x82, 5], b"first"].concat()).await.unwrap();
        stream
    }

    #[tokio::test]
    async fn frames_right_behind_the_response_are_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let secret = MeshSecret::new("5e".repeat(32)).unwrap();
        let (_node, opened) = tokio::join!(answer(listener), open(&address, &secret, "b", 1));
        let mut opened = opened.unwrap();
        let mut frames = Vec::new();
        let collect = |batch: &[u8]| {
            frames.extend_from_slice(batch);
            Ok(())
        };
        opened.read(std::time::Instant::now(), collect).unwrap();
        assert_eq!(frames, b"first");
    }
}
