//! TLS handshakes, as many as a front takes: those of clients that come for the first time, and of those that come back.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustls::HandshakeKind;
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::figures::{Figure, Unit};
use super::stage::{Secure, Target};
use crate::client::connect_from;
use crate::costs::{self, Costs};
use crate::procfs::own_cpu_seconds;
use crate::wire::Trust;

/// Under way at the same time: as many tickets as a client keeps of a server.
const AT_ONCE: u32 = 8;
/// How long one may take, with the ticket behind it.
const WITHIN: Duration = Duration::from_secs(10);

/// Whose handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of clients that come for the first time: a key exchange and a signature.
    Full,
    /// Of clients that show a ticket: a key exchange.
    Resumed,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Full, Self::Resumed];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Resumed => "resumed",
        }
    }

    fn is(self, kind: Option<HandshakeKind>) -> bool {
        match self {
            Self::Full => kind == Some(HandshakeKind::Full),
            Self::Resumed => kind == Some(HandshakeKind::Resumed),
        }
    }
}

/// Shakes hands so often, as fast as it goes. A connection ends once its client has a ticket.
pub(super) async fn handshakes(target: &Target, kind: Kind, count: u32) -> Result<Vec<Figure>> {
    let secure = target.secure.as_ref().context("nobody speaks TLS here")?;
    let trust = match kind {
        Kind::Full => Trust::of(&secure.certificate)?,
        Kind::Resumed => {
            let trust = Trust::resuming(&secure.certificate)?;
            shake(secure, &trust, Kind::Full, AT_ONCE).await?;
            trust
        }
    };
    let (before, own_before, begin) = (costs::read(&target.watched), own_cpu_seconds(), Instant::now());
    shake(secure, &trust, kind, count).await?;
    let (seconds, own) = (begin.elapsed().as_secs_f64(), own_cpu_seconds() - own_before);
    let costs = Costs::between(&before, &costs::read(&target.watched), count.into());
    let front = costs.group(target.front()).and_then(|cost| cost.cpu_us_per_message).context("the front has ended")?;
    let (count, name) = (f64::from(count), kind.name());
    Ok(vec![
        Figure::new(format!("{name} TLS handshakes"), Unit::PerSecond, count / seconds),
        Figure::new(format!("CPU of the front per {name} TLS handshake"), Unit::Microseconds, front),
        Figure::new(format!("the clients' own CPU per {name} TLS handshake"), Unit::Microseconds, own * 1e6 / count),
    ])
}

async fn shake(secure: &Secure, trust: &Trust, kind: Kind, count: u32) -> Result<()> {
    let left = Rc::new(Cell::new(count));
    let mut workers = JoinSet::new();
    for _ in 0..AT_ONCE.min(count) {
        let (left, trust, address) = (Rc::clone(&left), trust.clone(), secure.address);
        workers.spawn_local(async move {
            while left.get() > 0 {
                left.set(left.get() - 1);
                let stream = connect_from(None, address).await?;
                timeout(WITHIN, shake_once(&trust, kind, stream)).await.context("a handshake takes too long")??;
            }
            anyhow::Ok(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker.context("a handshake was stopped")??;
    }
    Ok(())
}

async fn shake_once(trust: &Trust, kind: Kind, stream: TcpStream) -> Result<()> {
    let mut stream = trust.connect(stream).await.context("a handshake failed")?;
    let found = stream.get_ref().1.handshake_kind();
    ensure!(kind.is(found), "a handshake was to be {}, and was {found:?}", kind.name());
    ticket(&mut stream).await
}

/// Waits for the ticket that a server sends of itself behind a handshake.
async fn ticket(stream: &mut TlsStream<TcpStream>) -> Result<()> {
    poll_fn(|context| {
        let mut nothing = [0; 1];
        let read = Pin::new(&mut *stream).poll_read(context, &mut ReadBuf::new(&mut nothing));
        if stream.get_ref().1.tls13_tickets_received() > 0 {
            return Poll::Ready(Ok(()));
        }
        match read {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error).context("a connection ended without a ticket")),
            Poll::Ready(Ok(())) => {
                Poll::Ready(Err(anyhow!("a connection ended, or brought something else, before a ticket")))
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::SocketAddr;
    use std::path::Path;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;
    use tokio::task::{LocalSet, spawn_local};

    use super::*;
    use crate::testing::tls_server;

    /// A server that gives tickets.
    async fn serve(dir: &Path) -> Secure {
        let (acceptor, certificate) = tls_server(dir);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        spawn_local(async move {
            loop {
                let (stream, acceptor) = (listener.accept().await.unwrap().0, acceptor.clone());
                spawn_local(async move { acceptor.accept(stream).await.unwrap().read(&mut [0; 1]).await });
            }
        });
        Secure { address, certificate }
    }

    #[tokio::test]
    async fn who_comes_for_the_first_time_shakes_hands_in_full_and_who_has_a_ticket_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let shaken = async {
            let secure = serve(dir.path()).await;
            let (first, again) =
                (Trust::of(&secure.certificate).unwrap(), Trust::resuming(&secure.certificate).unwrap());
            shake(&secure, &first, Kind::Full, 20).await.unwrap();
            shake(&secure, &again, Kind::Full, AT_ONCE).await.unwrap();
            shake(&secure, &again, Kind::Resumed, 50).await.unwrap();
            (shake(&secure, &first, Kind::Resumed, 1).await, shake(&secure, &again, Kind::Full, 1).await)
        };

        let (without_ticket, with_ticket) = LocalSet::new().run_until(shaken).await;

        assert!(without_ticket.unwrap_err().to_string().contains("to be resumed, and was Some(Full)"));
        assert!(with_ticket.unwrap_err().to_string().contains("to be full, and was Some(Resumed)"));
    }
}
