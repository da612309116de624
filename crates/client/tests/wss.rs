//! `wss://` URLs, with the feature `rustls`.

#![cfg(feature = "rustls")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::sync::Arc;

use common::{loss, welcomed};
use futures_util::{SinkExt as _, StreamExt as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use signaling_client::{Client, Ending, Fault, Options};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

const CERTIFICATE: &[u8] = include_bytes!("data/localhost.cert.der");
const KEY: &[u8] = include_bytes!("data/localhost.key.der");

#[tokio::test]
async fn client_sends_over_tls_with_a_trusted_certificate() {
    let server = Server::start().await;
    let (client, mut events) = Client::connect(server.options().tls(trusting([CERTIFICATE])));
    let mut socket = server.welcome().await.unwrap();
    events.connected().await.unwrap();
    let receipt = client.signal("bob", "hello").unwrap();
    let text = socket.next().await.unwrap().unwrap().into_text().unwrap();
    assert_eq!(text, r#"{"type":"signal","id":1,"to":"bob","data":"hello"}"#);
    socket.send(Message::text(r#"{"type":"ack","id":1}"#)).await.unwrap();
    receipt.await.unwrap();
}

#[tokio::test]
async fn untrusted_certificate_ends_the_attempt() {
    let server = Server::start().await;
    for options in [server.options(), server.options().tls(trusting([]))] {
        let (_client, mut events) = Client::connect(options);
        assert!(server.welcome().await.is_none());
        assert_eq!(loss(&mut events).await.1, Ending::Fault(Fault::Unreachable));
    }
}

struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Server {
    async fn start() -> Self {
        let key = PrivateKeyDer::try_from(KEY).unwrap();
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }

    fn options(&self) -> Options {
        Options::new("me", [format!("wss://localhost:{}", self.listener.local_addr().unwrap().port())]).unwrap()
    }

    /// Accepts and welcomes the next client; `None` if its TLS handshake fails.
    async fn welcome(&self) -> Option<WebSocketStream<TlsStream<TcpStream>>> {
        let (stream, _) = self.listener.accept().await.unwrap();
        let stream = self.acceptor.accept(stream).await.ok()?;
        welcomed(stream).await
    }
}

fn trusting<const N: usize>(certificates: [&'static [u8]; N]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(CertificateDer::from(certificate)).unwrap();
    }
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
