//! Runs a balancer from its checked flags to its end, for the binary and tests.

use std::rc::Rc;

use anyhow::Context as _;
use signaling_admin::servers::Role;
use signaling_core::edge::EdgeCore;
use signaling_discovery::{Settings, Source, Subject, watch, watch_with};
use signaling_edge::{Edge, MemoryBound, drain_clients};
use signaling_membership::View;
use signaling_server::http::{not_found, serve_router};
use signaling_server::load_readiness::LoadReadinessTask;
use signaling_server::local_calls::local_calls;
use signaling_server::mesh_status::ServerStatus;
use signaling_server::server_client::{ANSWER_TIMEOUT, ServerClient};
use signaling_server::{Health, Listener, Shutdown, admin, dashboard, health, process, telemetry};
use tokio::task::JoinSet;
use tracing::info;

use crate::backend::BalancerBackend;
use crate::config::Config;
use crate::operator::{self, Floor, OperatorApi};
use crate::pages;
use crate::trunk_manager::TrunkManager;

/// Maximum answer of a server in bytes: more than the reports of 1,000 balancers, which one node
/// returns. Each has about 2 KiB.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// Runs a balancer until `shutdown`. Then it closes its clients over `--drain-ms`, those of
/// dialects at the end of `--dialect-drain-ms`, and its trunks within 200 ms. An operator's drain
/// also closes the clients, but does not end it.
///
/// # Errors
/// If it cannot start: an address cannot be bound, the configuration for discovery is unusable, or
/// the system refuses open files, a poll or a client for HTTP.
///
/// # Panics
/// Outside a `LocalSet`.
pub async fn run(mut config: Config, shutdown: Shutdown) -> anyhow::Result<()> {
    let open_files = process::raise_open_files().context("cannot raise the limit of open files")?;
    config.edge = config.edge.within(open_files);
    let internal = Listener::bind(config.common.internal_listen).context("--internal-listen")?;
    let public = config.edge.bind(config.listen).context("--listen")?;
    let discovery = Rc::new(watch(config.common.discovery.clone()).await.context("--discovery")?);
    let (balancers, load_readiness) = config.load_readiness.clone().unzip();
    let balancers = balancers.unwrap_or_else(|| Source::Static(View::default()));
    let settings = Settings { subject: Subject::Peers, ..Settings::default() };
    let balancers = watch_with(balancers, &settings).await.context("--balancer-discovery")?;
    let health = Health::of_balancer();
    info!(
        id = %config.common.id,
        listen = %public.local_addr(),
        internal = %internal.local_addr(),
        discovery = %config.common.discovery,
        open_files,
        "balancer starts"
    );
    config.edge.identity.warn_if_open(public.local_addr());
    MemoryBound::of(&config.edge).announce("clients");

    let status = ServerStatus::new(&config.common, Role::Balancer, health.clone(), Rc::clone(&discovery));
    let backend = BalancerBackend::new(config.common.hash_seed.get(), health.clone(), status);
    let edge = Edge::new(EdgeCore::new(config.edge.core.clone()), &config.edge, Box::new(backend.clone()))
        .context("cannot watch sockets")?;
    let counted = edge.clone();
    let clients = move || Some(counted.clients());
    let load_readiness =
        LoadReadinessTask::new(&config.common, load_readiness, balancers.subscribe(), health.clone(), clients);
    let (floor, calls) = local_calls();
    let proofs = config.common.proofs.clone();
    let client = ServerClient::new(proofs.clone(), ANSWER_TIMEOUT, MAX_ANSWER_BYTES);
    let api = OperatorApi {
        floor,
        client: client.context("cannot create the client for requests to other servers")?,
        views: discovery.subscribe(),
    };
    let server_routes = operator::server_routes().with_state(api.clone());
    let operators = operator::routes().with_state(api).merge(health::drain_routes(health.clone()));
    let router = health::router(health.clone())
        .merge(load_readiness.router())
        .merge(admin::server_router(server_routes, proofs.clone()))
        .merge(admin::operator_router(operators, config.common.admin_token.clone()))
        .merge(config.common.hosts().guard(health::metrics_router().merge(dashboard::router())))
        .fallback(not_found);
    let mut tasks = JoinSet::new();
    let internal_port = internal.local_addr().port();
    tasks.spawn_local(serve_router(internal, router));
    tasks.spawn_local(telemetry::watch_event_loop());
    tasks.spawn_local(edge.clone().sweep());
    tasks.spawn_local(calls.answer(Floor { edge: edge.clone(), backend: backend.clone() }));
    tasks.spawn_local(config.edge.identity.clone().follow());
    tasks.spawn_local(backend.clone().run_handoffs(edge.clone()));
    let manager = TrunkManager { edge: edge.clone(), backend: backend.clone(), proofs: proofs.clone(), internal_port };
    tasks.spawn_local(manager.follow(discovery.subscribe()));
    tasks.spawn_local(load_readiness.run().context("cannot create the client for client counts")?);
    tasks.spawn_local(proofs.secrets().clone().follow(|_| {}));
    tasks.spawn_local(edge.clone().renew_certificate());
    let mut pages = pages::router().fallback(not_found);
    if config.demo {
        pages = pages.merge(signaling_demo::router(config.demo_control.clone()));
    }
    let ready = health.clone();
    let ready = async move { ready.until_ready().await };
    tasks.spawn_local(edge.clone().serve(public, ready, pages));

    tokio::select! {
        biased;
        () = shutdown.begun() => {}
        () = follow_drains(&health, &edge, &config) => {}
    }
    health.set_stopping();
    edge.drain().await;
    info!(clients = edge.clients(), "drain started");
    drain(&edge, &config).await;
    backend.with(|state| state.is_ending = true);
    edge.close_trunks().await;
    info!("balancer stops");
    Ok(())
}

/// Closes all clients over `--drain-ms`, those of dialects at the end of `--dialect-drain-ms`.
async fn drain(edge: &Edge, config: &Config) {
    let window = config.common.drain;
    let dialect_wait = config.dialect_drain.saturating_sub(window);
    drain_clients(edge, "this balancer is draining", window, dialect_wait).await;
}

/// Drains and undrains on operator requests. Never returns.
async fn follow_drains(health: &Health, edge: &Edge, config: &Config) {
    loop {
        health.drained_by_operator(true).await;
        info!(clients = edge.clients(), "drain started by operator");
        edge.drain().await;
        tokio::select! {
            () = health.drained_by_operator(false) => {}
            () = drain(edge, config) => {
                info!(clients = edge.clients(), "drained, out of service");
                health.drained_by_operator(false).await;
            }
        }
        edge.undrain();
        info!("undrained, accepts clients");
    }
}
