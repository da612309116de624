//! A balancer that goes away in good order takes no message with it.

#![allow(clippy::unwrap_used)]

use signaling_integration_tests::{Drill, TestMesh};

#[tokio::test]
async fn a_balancer_drains_and_its_clients_are_told_come_back_resume_and_lose_nothing() {
    let mut mesh = TestMesh::with(|options| {
        options.balancers = 2;
        options.balancer_args = vec!["--drain-ms=4000".to_owned()];
    })
    .await;

    let outcome = Drill::new("drain of a balancer")
        .with_clients_that_come_back()
        .run(&mut mesh, async |mesh| mesh.mesh.drain("balancer-0").await.unwrap())
        .await;

    outcome.assert_nothing_lost().assert_moved().assert_resumed();
    let figures = &outcome.figures;
    assert_eq!(
        figures.returns.sent_away,
        u64::from(figures.load.clients) / 2,
        "every client of that balancer is told to go"
    );
}
