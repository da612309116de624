//! Runs a node from its checked flags to its end, for the binary and tests.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use signaling_admin::servers::Role;
use signaling_discovery::watch;
use signaling_edge::{MemoryBound, drain_clients};
use signaling_server::http::not_found;
use signaling_server::load_readiness::LoadReadinessTask;
use signaling_server::local_calls::local_calls;
use signaling_server::mesh_status::ServerStatus;
use signaling_server::server_client::{ANSWER_TIMEOUT, ServerClient, http_client};
use signaling_server::{Health, Listener, Shutdown, admin, dashboard, health, process, telemetry};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::config::Config;
use crate::direct::DirectEdge;
use crate::internal::{self, Internal};
use crate::lanes::{CONNECT_TIMEOUT, follow_views};
use crate::operator::{OperatorApi, PeerQueries, learn_kicks, operators, server_routes};
use crate::{Floor, Node};
use signaling_core::edge::Reassignments;
use signaling_core::node::{HoldLimits, NodeCore, Rules, Settings};

/// Larger than a page of 1,000 clients, and than 10,000 kicks of 255 characters.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Minimum time that a draining node keeps running, for servers with an older view.
const MIN_DRAIN_TIME: Duration = Duration::from_secs(1);

/// Runs a node until `shutdown`. Then it drains for at most `--drain-ms` and closes its trunks
/// within 200 ms. An operator's drain does not end it.
///
/// # Errors
/// If an address cannot be bound, discovery is not configured, or the system refuses a resource.
///
/// # Panics
/// Outside a `LocalSet`.
pub async fn run(mut config: Config, shutdown: Shutdown) -> anyhow::Result<()> {
    let open_files = process::raise_open_files().context("cannot raise the limit of open files")?;
    config.edge = config.edge.within(open_files);
    let internal = Listener::bind(config.common.internal_listen).context("--internal-listen")?;
    let public = config.public.map(|address| config.edge.bind(address)).transpose().context("--public-listen")?;
    let discovery = Rc::new(watch(config.common.discovery.clone()).await.context("--discovery")?);
    let mut core = NodeCore::new(settings(&config));
    core.set_ice_servers(config.ice.servers());
    let node = Node::new(core, config.edge.coalescer.clone());
    if let Some(kicks) = &mut config.kicks {
        kicks.restore(&node).context("--state-dir: cannot write kicks.json")?;
    }
    let health = Health::of_node();
    let mut tasks = JoinSet::new();
    info!(
        id = %config.common.id,
        internal = %internal.local_addr(),
        public = public.as_ref().map(|public| public.local_addr().to_string()),
        discovery = %config.common.discovery,
        open_files,
        "node starts"
    );
    let mib = |bytes: usize| bytes.div_ceil(1024 * 1024);
    info!(
        absent_clients_mib = mib(config.absent_bytes()),
        rooms_mib = mib(config.rooms.max_bytes),
        "memory bounds, see --hold-bytes and --room-bytes"
    );

    let direct =
        public.as_ref().map(|_| DirectEdge::new(&node, &config.edge)).transpose().context("cannot watch sockets")?;
    let status = ServerStatus::new(&config.common, Role::Node, health.clone(), Rc::clone(&discovery));
    let proofs = config.common.proofs.clone();
    let (caller, calls) = local_calls();
    let client = ServerClient::new(proofs.clone(), ANSWER_TIMEOUT, MAX_ANSWER_BYTES);
    let peers = PeerQueries {
        own: config.common.id.clone(),
        client: client.context("cannot create the client for requests to peer nodes")?,
        views: discovery.subscribe(),
    };
    tasks.spawn_local(learn_kicks(node.clone(), peers.clone()));
    if let Some(kicks) = config.kicks.clone() {
        tasks.spawn_local(kicks.follow(node.clone()));
    }
    let api = OperatorApi { floor: caller, peers, health: health.clone() };
    let (operators, server_routes) = (operators(api.clone()), server_routes(api));
    let counted = direct.clone();
    let clients = move || counted.as_ref().map(|direct| direct.edge.clients());
    let load_readiness =
        LoadReadinessTask::new(&config.common, config.load_readiness, discovery.subscribe(), health.clone(), clients);
    let router = health::router(health.clone())
        .merge(load_readiness.router())
        .merge(admin::server_router(server_routes, proofs.clone()))
        .merge(admin::operator_router(operators, config.common.admin_token.clone()))
        .merge(config.common.hosts().guard(health::metrics_router().merge(dashboard::router())))
        .fallback(not_found);
    tasks.spawn_local(calls.answer(Floor { node: node.clone(), direct: direct.clone(), status }));
    let keys = node.clone();
    tasks.spawn_local(proofs.secrets().clone().follow(move |accepted| keys.set_mesh_secrets(accepted)));
    let refusals = Rc::new(RefCell::default());
    let served = Internal { node: node.clone(), proofs: proofs.clone(), router, refusals };
    tasks.spawn_local(internal::serve(served, internal));
    tasks.spawn_local(telemetry::watch_event_loop());
    tasks.spawn_local(node.clone().sweep());
    if let Some(journal) = config.journal.take() {
        let secrets = proofs.secrets().clone();
        let journal = node.journal(journal, secrets).map_err(anyhow::Error::msg).context("--room-journal")?;
        tasks.spawn_local(journal);
    }
    let ice_node = node.clone();
    tasks.spawn_local(config.ice.clone().follow(move |ice| ice_node.with_core(|core| core.set_ice_servers(ice))));
    let http = http_client(CONNECT_TIMEOUT, 0).context("cannot forward to other nodes")?;
    tasks.spawn_local(follow_views(node.clone(), http, discovery.subscribe(), proofs.clone()));
    if let (Some(direct), Some(listener)) = (&direct, public) {
        MemoryBound::of(&config.edge).announce("direct clients");
        config.edge.identity.warn_if_open(listener.local_addr());
        tasks.spawn_local(config.edge.identity.clone().follow());
        tasks.spawn_local(direct.clone().serve(listener, health.clone()));
        if let Some(window) = config.reassign_window {
            let reassignments = Reassignments::new(config.common.id.clone(), config.common.hash_seed.get(), window);
            tasks.spawn_local(direct.clone().reassign(reassignments, discovery.subscribe()));
        }
    }
    tasks.spawn_local(load_readiness.run().context("cannot create the client for client counts")?);
    tasks.spawn_local(ready_once(discovery.first_reading(), health.clone()));

    let drain_window = config.common.drain / 2;
    tokio::select! {
        biased;
        () = shutdown.begun() => {}
        () = follow_drains(&health, &node, direct.as_ref(), drain_window) => {}
    }
    health.set_stopping();
    begin_drain(&node, direct.as_ref()).await;
    info!(sessions = node.with_core(|core| core.sessions()), "drain started");
    let drained = async {
        tokio::join!(sleep(MIN_DRAIN_TIME), drain_direct_clients(direct.as_ref(), drain_window));
        while node.with_core(|core| !core.is_quiet()) {
            sleep(DRAIN_CHECK_INTERVAL).await;
        }
    };
    match timeout(config.common.drain, drained).await {
        Ok(()) => info!("node stops, all sessions handed off"),
        Err(_) => warn!(sessions = node.with_core(|core| core.sessions()), "node stops at the end of --drain-ms"),
    }
    node.close_trunks().await;
    Ok(())
}

/// Sets the node ready after the first read of discovery; before it the node has no view. Readiness
/// must not depend on later reads, nor on the view's members: a view may itself follow readiness.
async fn ready_once(first_reading: impl Future<Output = ()>, health: Health) {
    first_reading.await;
    health.set_ready(true, "");
    info!("ready");
}

/// Drains and undrains on operator requests. Never returns.
async fn follow_drains(health: &Health, node: &Node, direct: Option<&DirectEdge>, drain_window: Duration) {
    loop {
        health.drained_by_operator(true).await;
        begin_drain(node, direct).await;
        info!(sessions = node.with_core(|core| core.sessions()), "drain started by operator");
        tokio::select! {
            () = health.drained_by_operator(false) => {}
            () = drain_direct_clients(direct, drain_window) => health.drained_by_operator(false).await,
        }
        node.with_core(|core| core.undrain(Instant::now()));
        if let Some(direct) = direct {
            direct.edge.undrain();
        }
        info!("undrained, accepts clients");
    }
}

/// Refuses new direct clients, and has edges hand off their clients.
async fn begin_drain(node: &Node, direct: Option<&DirectEdge>) {
    if let Some(direct) = direct {
        direct.edge.drain().await;
    }
    node.with_core(|core| core.drain(Instant::now()));
}

/// Closes direct clients. No balancer can hand them off, so they reconnect to another node.
async fn drain_direct_clients(direct: Option<&DirectEdge>, window: Duration) {
    if let Some(direct) = direct {
        drain_clients(&direct.edge, "this node is draining", window, Duration::ZERO).await;
    }
}

fn settings(config: &Config) -> Settings {
    let (proofs, epoch) = (&config.common.proofs, (Instant::now(), SystemTime::now()));
    let resume_key = proofs.secrets().primary().resume_tokens().clone();
    Settings {
        hash_seed: config.common.hash_seed.get(),
        hold: config.hold,
        resume: config.resume,
        hold_limits: HoldLimits { bytes: config.hold_bytes, ..HoldLimits::default() },
        rules: Arc::new(Rules { heartbeat: config.common.heartbeat, ..Rules::default() }),
        max_message_bytes: config.common.max_message_bytes,
        reveal_nodes: config.common.reveal_nodes,
        rooms: config.rooms,
        ..Settings::new(config.common.id.clone(), proofs.incarnation(), resume_key, epoch)
    }
}
