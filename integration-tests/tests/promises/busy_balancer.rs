//! A balancer that is busy lets input gather, and still has time for all else.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use signaling_integration_tests::load::mesh_load;
use signaling_integration_tests::{Peer, TestMesh};
use tokio::time::{sleep, timeout};

const GATHER: Duration = Duration::from_millis(2);
/// For who comes in meanwhile, on a slow machine.
const SOON: Duration = Duration::from_secs(1);

#[tokio::test]
async fn newcomers_come_in_while_a_balancer_is_busy() {
    let mesh = TestMesh::with(|options| {
        options.nodes = 1;
        options.balancer_args.push(format!("--coalesce-us={}", GATHER.as_micros()));
        options.node_args.push("--coalesce-us=0".to_owned());
    })
    .await;

    let load = mesh_load(&mesh, &["steady", "--rate=12000", "--clients=100", "--warmup=1", "--seconds=3"]);
    let newcomers = async {
        for n in 0.. {
            let id = format!("late-{n}");
            let newcomer = timeout(SOON, Peer::connect(&mesh.url(), &id)).await;
            drop(newcomer.unwrap_or_else(|_| panic!("{id} was not let in within {SOON:?}")));
            sleep(Duration::from_millis(50)).await;
        }
    };
    let run = tokio::select! {
        run = load => run,
        () = newcomers => unreachable!("they never end"),
    };

    assert!(run.is_success, "{}", run.complaints);
    let p50 = Duration::from_micros(run.report["latency_us"]["p50"].as_u64().unwrap());
    assert!(p50 > GATHER, "{p50:?}: it was at ease, and nothing gathered");
}
