//! A balancer's life, from its flags to its end.

use anyhow::Context as _;
use axum::Router;
use signaling_discovery::watch;
use signaling_edge::shell::{Edge, MemoryBound, kicks, send_away};
use signaling_server::http::{HttpLimits, from_router, not_found, serve_connection};
use signaling_server::{DrainSwitch, Health, Listener, Shutdown, Telemetry, admin, health, limits};
use tokio::task::{JoinSet, LocalSet};
use tracing::info;

use crate::buttons;
use crate::config::Config;
use crate::drain::{GOING_AWAY, obey};
use crate::follower::Follower;
use crate::pages;
use crate::trunks::Trunks;

/// Runs a balancer until it is told to stop and has sent its clients elsewhere. Call it within a current-thread runtime.
///
/// # Errors
/// If it cannot start: an address is taken, or the system refuses something it needs.
pub async fn run(config: Config, telemetry: Telemetry, shutdown: Shutdown) -> anyhow::Result<()> {
    LocalSet::new().run_until(serve(config, telemetry, shutdown)).await
}

async fn serve(config: Config, telemetry: Telemetry, shutdown: Shutdown) -> anyhow::Result<()> {
    let open_files = limits::raise_open_files().context("cannot raise the limit of open files")?;
    let internal = Listener::bind(config.common.internal).context("--internal")?;
    let public = Listener::bind(config.listen).context("--listen")?;
    let discovery = watch(config.common.discovery.clone()).await.context("--discovery")?;
    let health = Health::new();
    info!(
        id = %config.common.id,
        listen = %public.local_addr(),
        internal = %internal.local_addr(),
        discovery = %config.common.discovery,
        open_files,
        "starts"
    );
    config.edge.identity.warn_if_open(public.local_addr());
    info!("memory for clients is at most {}", MemoryBound::of(&config.edge, open_files));

    let trunks = Trunks::new(config.common.hash_seed.get());
    let hang_up = trunks.clone();
    let edge = Edge::new(&config.edge, Box::new(trunks.clone()));
    let switch = DrainSwitch::new(health.clone(), shutdown.clone());
    let (operators, kicks) = kicks();
    let operators = operators.merge(switch.router());
    let router = health::router(health.clone(), telemetry.clone())
        .merge(admin::guarded(operators, config.common.admin_token.clone()))
        .fallback(not_found);
    let mut tasks = JoinSet::new();
    tasks.spawn_local(serve_internal(internal, router));
    tasks.spawn_local(telemetry.watch_event_loop());
    tasks.spawn_local(edge.clone().sweep());
    tasks.spawn_local(edge.clone().kick(kicks));
    tasks.spawn_local(config.edge.identity.clone().follow());
    tasks.spawn_local(trunks.clone().move_clients(edge.clone()));
    let follower = Follower {
        edge: edge.clone(),
        trunks,
        secrets: config.common.mesh_secrets.clone(),
        id: config.common.id.clone(),
        health: health.clone(),
    };
    tasks.spawn_local(follower.follow(discovery.subscribe()));
    tasks.spawn_local(config.common.mesh_secrets.follow(|_| {}));
    tasks.spawn_local(edge.clone().renew_certificate());
    let mut pages = pages::router(config.demo);
    if config.demo {
        pages = pages.merge(buttons::router(config.demo_control.clone()));
    }
    tasks.spawn_local(edge.clone().serve(public, pages));

    tokio::select! {
        biased;
        () = shutdown.draining() => {}
        () = obey(&switch, &edge, config.common.drain) => {}
    }
    health.draining();
    edge.drain();
    info!(clients = edge.clients(), "drains");
    send_away(&edge, GOING_AWAY, config.common.drain).await;
    hang_up.hang_up(&edge).await;
    info!("stops");
    shutdown.stop();
    Ok(())
}

async fn serve_internal(mut listener: Listener, router: Router) {
    loop {
        let (stream, peer) = listener.accept().await;
        let router = router.clone();
        tokio::task::spawn_local(async move {
            let service = |request| {
                let router = router.clone();
                async move { from_router(&router, request).await }
            };
            serve_connection(stream, peer, HttpLimits::INTERNAL, service).await;
        });
    }
}
