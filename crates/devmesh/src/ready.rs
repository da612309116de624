//! Waits for a started server to answer. `mesh` calls it and limits the time.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::id::ServerId;
use crate::ports::Addresses;

const TRY_INTERVAL: Duration = Duration::from_millis(20);
const TRY_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns once the server answers `/readyz` with 200, or a Redis accepts connections. Polls every
/// 20 ms without a limit.
pub(crate) async fn until_ready(id: ServerId, addresses: Addresses, http: &reqwest::Client) {
    let readyz = format!("http://{}/readyz", addresses.internal);
    loop {
        let is_ready = match id {
            ServerId::Redis => TcpStream::connect(addresses.public).await.is_ok(),
            _ => {
                let answer = http.get(&readyz).timeout(TRY_TIMEOUT).send().await;
                answer.is_ok_and(|answer| answer.status() == reqwest::StatusCode::OK)
            }
        };
        if is_ready {
            return;
        }
        sleep(TRY_INTERVAL).await;
    }
}
