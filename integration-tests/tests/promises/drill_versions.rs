//! While nodes of two versions are in one mesh, as in every rolling upgrade, plain clients notice nothing.

#![allow(clippy::unwrap_used)]

use std::cell::OnceCell;
use std::path::Path;

use signaling_devmesh::Binaries;
use signaling_integration_tests::drill::previous::{Replaceable, previous};
use signaling_integration_tests::mesh::binaries;
use signaling_integration_tests::{Drill, TestMesh};

#[tokio::test]
async fn nodes_are_upgraded_and_one_is_taken_back_under_balancers_of_both_versions_and_no_message_is_lost() {
    let Some(previous) = previous() else { return };
    let current = Binaries::locate(Some(&binaries())).unwrap();
    let programs = OnceCell::new();
    let mut mesh = TestMesh::with(|options| {
        let replaceable = Replaceable::new(&options.dir, &previous);
        options.balancers = 2;
        options.binaries = replaceable.binaries();
        let _ = programs.set(replaceable);
    })
    .await;
    let programs = programs.get().unwrap();
    programs.become_version(&current);
    mesh.mesh.restart("balancer-1").await.unwrap();
    mesh.agrees().await;
    assert_version(&mesh, "balancer-0", &previous.balancer);
    assert_version(&mesh, "balancer-1", &current.balancer);

    let outcome = Drill::new("upgrade of the nodes, one taken back")
        .run(&mut mesh, async |mesh| {
            for node in ["node-0", "node-1", "node-2"] {
                assert_version(mesh, node, &previous.node);
                mesh.mesh.restart(node).await.unwrap();
                assert_version(mesh, node, &current.node);
                mesh.agrees().await;
            }
            programs.become_version(&previous);
            mesh.mesh.restart("node-0").await.unwrap();
            assert_version(mesh, "node-0", &previous.node);
        })
        .await;

    outcome.assert_nothing_lost().assert_moved();
}

/// The process of this server runs this program.
fn assert_version(mesh: &TestMesh, id: &str, program: &Path) {
    let state = mesh.mesh.state();
    let servers = state.nodes.iter().map(|node| (&node.id, node.pid));
    let mut servers = servers.chain(state.balancers.iter().map(|balancer| (&balancer.id, balancer.pid)));
    let (_, pid) = servers.find(|(server, _)| *server == id).unwrap();
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/exe")).unwrap(), program, "{id}");
}
