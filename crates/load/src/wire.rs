//! What a client's frames go over: TCP, or TLS over it (RFC 8446).

use std::io::Result;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use anyhow::Context;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What the certificates that are trusted here are for.
pub(crate) const SERVER_NAME: &str = "localhost";

/// A server that clients trust by its certificate. A cheap clone shares it.
#[derive(Clone)]
pub(crate) struct Trust(TlsConnector);

impl Trust {
    /// Clients that come for the first time, each of them.
    pub(crate) fn of(certificate: &Path) -> anyhow::Result<Self> {
        Self::with(certificate, Resumption::disabled())
    }

    /// Clients that show the tickets which those before them were given.
    pub(crate) fn resuming(certificate: &Path) -> anyhow::Result<Self> {
        Self::with(certificate, Resumption::default())
    }

    fn with(certificate: &Path, resumption: Resumption) -> anyhow::Result<Self> {
        let shown = CertificateDer::from_pem_file(certificate);
        let shown = shown.with_context(|| format!("cannot read {}", certificate.display()))?;
        let mut roots = RootCertStore::empty();
        roots.add(shown).context("the certificate does not serve")?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = resumption;
        Ok(Self(Arc::new(config).into()))
    }

    /// Shakes hands.
    pub(crate) async fn connect(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(SERVER_NAME).map_err(std::io::Error::other)?;
        self.0.connect(name, stream).await
    }
}

/// A client's connection.
pub(crate) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut TaskContext<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
