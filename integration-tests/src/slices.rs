//! As much of an API server as pods ask for: one list of EndpointSlices that never changes, over TLS.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

const HEAD_AT_MOST: usize = 16 * 1024;
/// How long a watch says nothing before it ends in good order.
const WATCH: Duration = Duration::from_secs(20);

/// It serves until it is dropped.
pub struct SliceServer {
    /// Where.
    pub address: SocketAddr,
    /// The requests so far: method, path and token.
    pub requests: Arc<Mutex<Vec<String>>>,
    serving: AbortHandle,
}

impl SliceServer {
    /// Serves these pods, by name and address, as ready members of a Service.
    pub async fn start(bind: SocketAddr, service: &str, port: (&str, u16), pods: &[(String, String)]) -> Self {
        let list = slices(service, port, pods).to_string();
        let listener = TcpListener::bind(bind).await.unwrap();
        let address = listener.local_addr().unwrap();
        let key = PrivateKeyDer::try_from(std::fs::read(data("localhost.key.der")).unwrap()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate()], key)
            .unwrap();
        let (acceptor, requests) = (TlsAcceptor::from(Arc::new(config)), Arc::default());
        let heard: Arc<Mutex<Vec<String>>> = Arc::clone(&requests);
        let serving = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (acceptor, list, heard) = (acceptor.clone(), list.clone(), Arc::clone(&heard));
                tokio::spawn(async move {
                    // Whoever does not trust us goes away.
                    let Ok(mut socket) = acceptor.accept(socket).await else { return };
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_AT_MOST {
                        let Ok(byte) = socket.read_u8().await else { return };
                        head.push(byte);
                    }
                    let head = String::from_utf8_lossy(&head).into_owned();
                    let line = head.lines().next().unwrap_or_default().to_owned();
                    let token = head.lines().find_map(|line| line.split_once("earer ")).map_or("", |(_, token)| token);
                    heard.lock().unwrap().push(format!("{line} {token}"));
                    let answer = if line.contains("watch=") {
                        sleep(WATCH).await;
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()
                    } else {
                        let length = list.len();
                        format!(
                            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{list}"
                        )
                    };
                    // It may have gone meanwhile.
                    let _ = socket.write_all(answer.as_bytes()).await;
                    let _ = socket.shutdown().await;
                });
            }
        });
        Self { address, requests, serving: serving.abort_handle() }
    }

    /// What its certificate can be checked by, as PEM. It is for the name `localhost`.
    #[must_use]
    pub fn ca() -> String {
        let base64 = STANDARD.encode(certificate());
        let lines: Vec<&str> = base64.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    }
}

impl Drop for SliceServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn slices(service: &str, (port_name, port): (&str, u16), pods: &[(String, String)]) -> Value {
    let endpoint = |(name, address): &(String, String)| {
        json!({
            "addresses": [address],
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "targetRef": { "kind": "Pod", "name": name, "namespace": "signaling", "uid": format!("uid-of-{name}") },
        })
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSliceList", "metadata": { "resourceVersion": "1" },
        "items": [{
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": format!("{service}-abcde"), "namespace": "signaling", "resourceVersion": "1", "uid": "uid-of-slice",
                "labels": { "kubernetes.io/service-name": service },
            },
            "ports": [{ "name": port_name, "port": port, "protocol": "TCP" }],
            "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>(),
        }],
    })
}

fn certificate() -> CertificateDer<'static> {
    std::fs::read(data("localhost.cert.der")).unwrap().into()
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/client/tests/data").join(name)
}
