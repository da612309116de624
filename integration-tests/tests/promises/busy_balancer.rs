//! A busy balancer delays reads, and still admits clients.

use std::time::Duration;

use signaling_integration_tests::{TestMesh, mesh_load};
use tokio::time::{sleep, timeout};

const MAX_READ_DELAY: Duration = Duration::from_millis(10);
/// Without read delays the p50 is about 0.5 ms at this rate.
const COALESCED_P50: Duration = Duration::from_millis(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn busy_balancer_admits_clients_while_it_coalesces() {
    let flag = format!("--coalesce-us={}", MAX_READ_DELAY.as_micros());
    let mesh = TestMesh::with_servers((1, 1), &["--coalesce-us=0"], &[&flag]).await;

    let load = mesh_load(&mesh, &["steady", "--rate=16000", "--clients=100", "--warmup=1", "--seconds=3"]);
    let newcomers = async {
        for n in 0.. {
            let id = format!("late-{n}");
            let newcomer = timeout(CONNECT_TIMEOUT, mesh.peer(&id)).await;
            drop(newcomer.unwrap_or_else(|_| panic!("{id} was not admitted within {CONNECT_TIMEOUT:?}")));
            sleep(Duration::from_millis(50)).await;
        }
    };
    let run = tokio::select! {
        run = load => run,
        () = newcomers => unreachable!("newcomers connect until the load ends"),
    };

    assert!(run.is_success, "{}", run.complaints);
    let p50 = Duration::from_micros(run.report["latency_us"]["p50"].as_u64().unwrap());
    assert!(p50 > COALESCED_P50, "p50 {p50:?}: the balancer did not coalesce");
}
