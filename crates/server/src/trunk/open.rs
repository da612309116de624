//! Connecting a trunk to a node, for a balancer's trunk manager.

use ::http::{HeaderMap, HeaderValue, StatusCode};
use signaling_protocol::NodeId;
use signaling_wire::trunk::{INTERNAL_PORT_HEADER, PATH, SUBPROTOCOL};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Error, client::IntoClientRequest as _, protocol::Role};
use tokio_util::io::InspectReader;

use super::{PolledStream, Trunk, config};
use crate::http::refusal_summary;
use crate::proofs::{Proofs, Purpose};

/// The connecting end of a trunk, among the sockets of an edge's event loop.
pub type OutboundTrunk = Trunk<PolledStream>;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// Connects a trunk to the node at `address` (`HOST:PORT`). Panics outside a Tokio runtime with
/// I/O. Has no time limit. The request carries a proof of the mesh secret for the node, and the
/// port of this server's internal listener.
///
/// # Errors
/// If the node cannot be reached or refuses the trunk. The text has the node's reason.
pub async fn open(
    node: &NodeId,
    address: &str,
    proofs: &Proofs,
    own_internal_port: u16,
) -> Result<OutboundTrunk, String> {
    let headers = || proofs.headers(Purpose::Trunk, node);
    let sent = headers();
    let refused = match connect(address, sent.clone(), own_internal_port).await {
        Err(Error::Http(refused)) => refused,
        Err(error) => return Err(error.to_string()),
        Ok(trunk) => return Ok(trunk),
    };
    // The node is another process than before, or this is the first trunk to it.
    if refused.status() == StatusCode::UNAUTHORIZED && proofs.learn(node, &sent, refused.headers()) {
        return connect(address, headers(), own_internal_port).await.map_err(|error| reason(&error));
    }
    Err(reason(&Error::Http(refused)))
}

fn reason(error: &Error) -> String {
    match error {
        Error::Http(refused) => refusal_summary(refused.status(), refused.body().as_deref().unwrap_or_default()),
        error => error.to_string(),
    }
}

async fn connect(address: &str, proof: HeaderMap, own_internal_port: u16) -> Result<OutboundTrunk, Error> {
    let mut request = format!("ws://{address}{PATH}").into_client_request()?;
    let headers = request.headers_mut();
    headers.extend(proof);
    headers.insert(::http::header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
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
    use crate::testing::proofs;

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
        let (node, proofs) = (NodeId::new("n").unwrap(), proofs());
        let (_node, opened) = tokio::join!(answer(listener), open(&node, &address, &proofs, 1));
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
