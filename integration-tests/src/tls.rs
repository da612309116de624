//! Certificates made by openssl, clients that trust one of them, and a mesh that uses one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::TestMesh;
use crate::http::host;

/// The files of a self-signed certificate for `localhost`.
pub struct Certificate {
    /// The certificate, in PEM.
    pub path: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

impl Certificate {
    /// Creates a certificate that expires after `days` days, as `NAME.pem` and `NAME.key`. Panics
    /// without an installed openssl.
    pub fn new(folder: &Path, name: &str, days: u32) -> Self {
        let (path, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-days", &days.to_string()])
            .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
            .arg(&key)
            .arg("-out")
            .arg(&path)
            .output()
            .expect("openssl makes the certificates of tests");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { path, key }
    }

    /// Returns the flags of a server that uses this certificate.
    pub fn flags(&self) -> Vec<String> {
        vec![format!("--tls-cert={}", self.path.display()), format!("--tls-key={}", self.key.display())]
    }

    /// Overwrites the files by those of another certificate, the key first, like an operator.
    pub fn overwrite_by(&self, other: &Self) {
        std::fs::copy(&other.key, &self.key).unwrap();
        std::fs::copy(&other.path, &self.path).unwrap();
    }

    /// Returns the TLS configuration of a client that trusts this certificate alone.
    pub fn trusted(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.path).unwrap()).unwrap();
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// Completes a TLS handshake with a server, `IP:PORT` or a URL without a path, that must
    /// present this certificate. Offers the protocols `alpn`; empty: none.
    ///
    /// # Errors
    /// If the server does not accept the connection, presents another certificate, accepts none of
    /// the protocols, or closes the connection.
    pub async fn connect(&self, address: &str, alpn: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
        let mut config = self.trusted();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        // Small buffers make the server's writes block now and then.
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(8 * 1024)?;
        let stream = socket.connect(host(address).parse().unwrap()).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
    }
}

/// A mesh whose balancer uses a certificate.
pub struct SecureMesh {
    pub mesh: TestMesh,
    pub certificate: Certificate,
    /// Folder of the certificate's files.
    pub folder: TempDir,
}

impl SecureMesh {
    /// Starts a mesh with this number of nodes and a certificate for `days` days. The flags are the
    /// balancer's.
    pub async fn start(nodes: u32, days: u32, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certificate = Certificate::new(folder.path(), "first", days);
        let shown = certificate.flags();
        let flags: Vec<_> = shown.iter().map(String::as_str).chain(flags.iter().copied()).collect();
        let mesh = TestMesh::with_servers((nodes, 1), &[], &flags).await;
        Self { mesh, certificate, folder }
    }
}
