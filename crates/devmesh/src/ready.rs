use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::id::ServerId;
use crate::ports::Addresses;

const TRY_INTERVAL: Duration = Duration::from_millis(20);
const TRY_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns once the server reports readiness. Polls without a limit.
pub(crate) async fn until_ready(id: ServerId, addresses: Addresses, http: &reqwest::Client) {
    loop {
        let answer = async {
            match id {
                ServerId::Redis => answers_ping(addresses.public).await.unwrap_or(false),
                _ => answers_readyz(addresses.internal, http).await,
            }
        };
        if timeout(TRY_TIMEOUT, answer).await == Ok(true) {
            return;
        }
        sleep(TRY_INTERVAL).await;
    }
}

async fn answers_readyz(internal: SocketAddr, http: &reqwest::Client) -> bool {
    let answer = http.get(format!("http://{internal}/readyz")).send().await;
    answer.is_ok_and(|answer| answer.status() == reqwest::StatusCode::OK)
}

async fn answers_ping(redis: SocketAddr) -> std::io::Result<bool> {
    let mut socket = TcpStream::connect(redis).await?;
    socket.write_all(b"PING\r\n").await?;
    let mut answer = [0; 7];
    socket.read_exact(&mut answer).await?;
    Ok(&answer == b"+PONG\r\n")
}
