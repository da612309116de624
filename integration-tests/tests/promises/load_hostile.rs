//! The harness brings a crowd that means harm: good clients lose nothing, and the balancer's memory stays under what it says.
//!
//! The whole crowd takes the whole machine, and optimised servers: `mesh-load hostile` by itself.

#![allow(clippy::unwrap_used)]

use signaling_integration_tests::TestMesh;
use signaling_integration_tests::load::mesh_load;

const HANDSHAKES: u64 = 200;
const DEAF: u64 = 60;

#[tokio::test]
async fn good_clients_lose_nothing_beside_a_crowd_that_drips_and_does_not_listen() {
    let mesh = TestMesh::with(|options| {
        let flags =
            ["--max-client-buffer-bytes=4194304", "--max-handshakes=250", "--max-sockets=200", "--handshake-ms=2000"];
        options.balancer_args = flags.map(str::to_owned).into();
    })
    .await;
    let crowd = [format!("--handshakes={HANDSHAKES}"), format!("--deaf={DEAF}")];
    // How fast, is not for a test on a shared machine to say.
    let arguments = ["hostile", "--clients=20", "--rate=200", "--seconds=3", "--warmup=1", "--max-p99-ms=1000"];
    let arguments: Vec<_> = arguments.into_iter().chain(crowd.iter().map(String::as_str)).collect();

    let run = mesh_load(&mesh.dir, &arguments).await;

    assert!(run.is_success, "{}", run.complaints);
    for when in ["before", "meanwhile"] {
        assert_eq!(run.report[when]["messages"]["delivered"], 800, "{when}");
    }
    let edge = &run.report["edges"][0];
    let count = |of: &str, name: &str| edge[of][name].as_u64().unwrap();
    assert!(count("highest", "signaling_handshakes") >= HANDSHAKES / 2, "{edge}");
    assert!(count("highest", "signaling_client_sockets") >= DEAF, "{edge}");
    assert!(
        count("counted", "signaling_refused_connects_total") >= HANDSHAKES / 2,
        "slow handshakes are closed: {edge}"
    );
    let (resident, bound) = (edge["resident_bytes"].as_u64().unwrap(), edge["bound_bytes"].as_u64().unwrap());
    assert!(resident > 0 && resident <= bound && bound < 64 << 20, "{edge}");
    let log = std::fs::read_to_string(mesh.dir.path().join("logs/balancer-0.log")).unwrap();
    assert!(log.contains(&format!("memory for clients is at most {} MiB", bound.div_ceil(1 << 20))), "{log}");
}
