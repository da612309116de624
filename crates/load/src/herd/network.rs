use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::Uri;
use signaling_client::Dial;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::client::connect_from;

/// TCP of which all connections can be cut at once.
#[derive(Clone, Default)]
pub(super) struct Network {
    cut: Arc<Mutex<CancellationToken>>,
}

/// The way of one client: from this address, or any.
pub(super) struct Way {
    network: Network,
    source: Option<IpAddr>,
}

/// A stream that ends when the network is cut.
pub(super) struct Cuttable {
    stream: TcpStream,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Network {
    pub(super) fn way(&self, source: Option<IpAddr>) -> Way {
        Way { network: self.clone(), source }
    }

    /// Ends all connections there are. Later ones are not concerned.
    pub(super) fn cut(&self) {
        std::mem::take(&mut *self.cut.lock().unwrap_or_else(PoisonError::into_inner)).cancel();
    }
}

impl Dial for Way {
    type Stream = Cuttable;

    async fn dial(&self, url: &Uri) -> io::Result<Cuttable> {
        let cut = self.network.cut.lock().unwrap_or_else(PoisonError::into_inner).clone().cancelled_owned();
        let host = url.authority().ok_or(io::ErrorKind::AddrNotAvailable)?.as_str();
        let address = lookup_host(host).await?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Cuttable { stream: connect_from(self.source, address).await?, cut: Box::pin(cut) })
    }
}

impl AsyncRead for Cuttable {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Cuttable {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
