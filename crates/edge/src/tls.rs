//! TLS of the public listener. The certificate is reloaded when its files change.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use signaling_server::FileWatcher;
use signaling_server::metrics::Reload;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{info, warn};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use crate::metrics::{self, METRICS};

/// The ALPN protocol: browsers use WebSocket over HTTP/1.1.
const PROTOCOL: &[u8] = b"http/1.1";

/// Files of a certificate and its key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by its intermediate certificates.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or has no certificate or no private key in PEM.
    #[error("cannot read {path}: {error}", path = .0.display(), error = .1)]
    Unreadable(PathBuf, pem::Error),
    /// Certificate or key is unusable, they do not match, or the system has no random numbers.
    #[error("certificate and key are unusable: {0}")]
    Unusable(#[from] rustls::Error),
}

/// TLS of a listener, with one certificate for all names. Clones share it.
#[derive(Clone)]
pub struct Tls {
    files: TlsFiles,
    shown: Arc<Shown>,
    acceptor: TlsAcceptor,
}

/// The certificate for new connections.
#[derive(Debug)]
struct Shown(watch::Sender<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.borrow()))
    }
}

impl Tls {
    /// Loads the files. Waits for the disk.
    ///
    /// # Errors
    /// If they cannot be read or used, or do not match.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let shown = Arc::new(Shown(watch::Sender::new(Arc::new(files.read()?))));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&shown) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // Tickets spare returning clients the expensive part of the handshake without server state.
        config.ticketer = ring::Ticketer::new()?;
        Ok(Self { files, shown, acceptor: Arc::new(config).into() })
    }

    /// Returns the earliest expiry of certificate and intermediates; `None` if all are malformed.
    pub(super) fn expires(&self) -> Option<SystemTime> {
        self.shown.0.borrow().cert.iter().filter_map(|der| expiry(der)).min()
    }

    fn show(&self, key: CertifiedKey) {
        self.shown.0.send_replace(Arc::new(key));
        metrics::certificate_expires(self.expires());
    }

    /// Performs the server side of a TLS handshake, without a time limit. Fails if the client
    /// breaks it off or shares no protocol version, cipher or ALPN protocol.
    pub(super) async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }

    /// Replaces the certificate within about 1 s of a change to usable files. Never returns.
    pub(super) async fn renew(self) {
        let mut watched = FileWatcher::new([self.files.certificate.clone(), self.files.key.clone()]).await;
        // They may have changed since the first read.
        if let Ok(key) = self.files.read() {
            self.show(key);
        }
        loop {
            watched.changed().await;
            match self.files.read() {
                Ok(key) => {
                    self.show(key);
                    METRICS.certificate_loads.of(Reload::Used).inc();
                    info!("certificate replaced");
                }
                Err(error) => {
                    METRICS.certificate_loads.of(Reload::Unusable).inc();
                    warn!(%error, "cannot use the new certificate yet, the old one stays");
                }
            }
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Returns the end of a certificate's validity; `None` if the DER is malformed.
fn expiry(der: &[u8]) -> Option<SystemTime> {
    let certificate = Certificate::from_der(der).ok()?;
    Some(certificate.tbs_certificate().validity().not_after.to_system_time())
}

impl TlsFiles {
    fn read(&self) -> Result<CertifiedKey, TlsError> {
        let unreadable = |path: &PathBuf, error| TlsError::Unreadable(path.clone(), error);
        let chain = CertificateDer::pem_file_iter(&self.certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| unreadable(&self.certificate, error))?;
        if chain.is_empty() {
            return Err(unreadable(&self.certificate, pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unreadable(&self.key, error))?;
        Ok(CertifiedKey::from_der(chain, key, &ring::default_provider())?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const CERTIFICATE: &[u8] = include_bytes!("../tests/keys/localhost.cert.der");

    #[test]
    fn expiry_is_read_from_a_certificate() {
        assert_eq!(expiry(CERTIFICATE), Some(SystemTime::UNIX_EPOCH + Duration::from_secs(4_948_878_633)));
        assert_eq!(expiry(&CERTIFICATE[1..]), None);
    }
}
