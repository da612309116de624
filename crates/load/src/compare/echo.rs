//! The minimum cost: a server that returns each message to its sender, with one read and one write
//! per batch.
//! It has the edge's own frame codec, one thread and one buffer for all clients. Any cost of a
//! proxy beyond it is its work on messages. `mesh-load compare` starts it as `mesh-load echo`.

use std::cell::RefCell;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use signaling_core::ws::{Decoder, Limits, echo, encode};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::accept_async_with_config;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

const SCRATCH_BYTES: usize = 64 * 1024;
const UPGRADE_BYTES: usize = 4 * 1024;
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause of accepting connections after the system has failed to accept one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const WELCOME: &[u8] = br#"{"type":"welcome"}"#;

/// Options of `mesh-load echo`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Address to listen on
    #[arg(long, value_name = "ADDR")]
    listen: SocketAddr,
}

/// Serves all connections, within a [`tokio::task::LocalSet`], while polled. Fails if it cannot
/// bind.
pub(crate) async fn run(Options { listen }: &Options) -> anyhow::Result<()> {
    serve(TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?).await;
    Ok(())
}

async fn serve(listener: TcpListener) {
    let buffers = Rc::new(RefCell::new(Buffers { scratch: vec![0; SCRATCH_BYTES], out: Vec::new() }));
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    clients.spawn_local(client(stream, Rc::clone(&buffers)));
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = clients.join_next(), if !clients.is_empty() => {}
        }
    }
}

struct Buffers {
    scratch: Vec<u8>,
    out: Vec<u8>,
}

async fn client(stream: TcpStream, buffers: Rc<RefCell<Buffers>>) -> Result<()> {
    let mut stream = upgrade(stream).await?;
    let mut decoder = Decoder::default();
    loop {
        stream.readable().await?;
        let (is_last, unwritten) = {
            let Buffers { scratch, out } = &mut *buffers.borrow_mut();
            let read = match stream.try_read(scratch) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                read => read?,
            };
            out.clear();
            let is_last = read == 0 || echo(&mut decoder, &mut scratch[..read], Limits::default(), out);
            let written = match stream.try_write(out) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                written => written?,
            };
            (is_last, out[written..].to_vec())
        };
        stream.write_all(&unwritten).await?;
        if is_last {
            return stream.shutdown().await;
        }
    }
}

/// Upgrades a connection. The read buffer is empty then.
async fn upgrade(stream: TcpStream) -> Result<TcpStream> {
    stream.set_nodelay(true)?;
    let config = WebSocketConfig::default().read_buffer_size(UPGRADE_BYTES);
    let upgraded = timeout(UPGRADE_TIMEOUT, accept_async_with_config(stream, Some(config))).await?;
    let mut stream = upgraded.map_err(Error::other)?.into_inner();
    let mut welcome = Vec::new();
    encode::text(&mut welcome, WELCOME);
    stream.write_all(&welcome).await?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use futures_util::{SinkExt as _, StreamExt as _};
    use tokio::task::{LocalSet, spawn_local};
    use tokio_tungstenite::tungstenite::Message;

    use super::*;

    async fn connected() -> tokio_tungstenite::WebSocketStream<TcpStream> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        spawn_local(serve(listener));
        let stream = TcpStream::connect(address).await.unwrap();
        tokio_tungstenite::client_async(format!("ws://{address}/"), stream).await.unwrap().0
    }

    #[tokio::test]
    async fn many_long_messages_come_back_whole() {
        const MESSAGES: usize = 300;
        let talk = async {
            let mut socket = connected().await;
            socket.next().await.unwrap().unwrap();
            let (mut write, mut read) = socket.split();
            let writing = spawn_local(async move {
                for _ in 0..MESSAGES {
                    write.send(Message::text("x".repeat(60_000))).await.unwrap();
                }
            });
            let mut bytes = 0;
            for _ in 0..MESSAGES {
                bytes += read.next().await.unwrap().unwrap().len();
            }
            writing.await.unwrap();
            bytes
        };

        assert_eq!(LocalSet::new().run_until(talk).await, MESSAGES * 60_000);
    }
}
