//! What several tests of this crate share.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::compare::Certificate;
use crate::exchange::TrafficOptions;
use crate::fleet::FleetOptions;

/// The options that scenarios have in common.
#[derive(Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) fleet: FleetOptions,
    #[command(flatten)]
    pub(crate) traffic: TrafficOptions,
}

/// Reads options as a command line has them.
pub(crate) fn options<T: Args>(arguments: &[&str]) -> Result<T, clap::Error> {
    let command = T::augment_args(clap::Command::new("mesh-load").no_binary_name(true));
    T::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

pub(crate) fn parse(arguments: &[&str]) -> Result<Common, clap::Error> {
    options(arguments)
}

/// The serving end of TLS, which gives tickets, and the certificate that it shows.
pub(crate) fn tls_server(dir: &Path) -> (TlsAcceptor, PathBuf) {
    let Certificate { path, key, .. } = Certificate::new(dir).unwrap();
    let chain = vec![CertificateDer::from_pem_file(&path).unwrap()];
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(&key).unwrap())
        .unwrap();
    config.ticketer = ring::Ticketer::new().unwrap();
    (TlsAcceptor::from(Arc::new(config)), path)
}
