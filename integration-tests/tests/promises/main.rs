//! One promise per file, on real processes. All are one program, because linking one for each takes
//! longer than many tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod admin_api;
mod admin_drain;
mod backlog;
mod bad_messages;
mod browsers;
mod busy_balancer;
mod calls;
mod client_addresses;
mod compare;
mod config;
mod config_reference;
mod dashboard;
mod dialect_bad_input;
mod dialect_clients;
mod dialect_media_clients;
mod dialect_pages;
mod dialect_rooms;
mod dialect_streaming;
mod dialects;
mod direct_clients;
mod drill_absent;
mod drill_alerts;
mod drill_journal;
mod drill_kubernetes;
mod drill_mesh_rooms;
mod drill_rooms;
mod drill_sdk;
mod drill_servers;
mod examples;
mod exchange;
mod floods;
mod front_proxies;
mod hostile;
mod internal_listener;
mod journal_readers;
mod load;
mod log_story;
mod manifests;
mod matchbox_players;
mod metrics_table;
mod origins;
mod python_client;
mod quiet_logs;
mod readiness_by_load;
mod readme;
mod refusals;
mod reliable_clients;
mod room_operators;
mod rooms;
mod rooms_churn;
mod sdk_in_node;
mod secret_rotation;
mod shared_port;
mod silent_sockets;
mod slow_readers;
mod tls;
mod tokens;
mod tokens_in_browsers;
mod turn;
mod unnamed_node;

#[test]
fn every_test_file_is_compiled() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promises");
    let here = include_str!("main.rs");
    for file in folder.read_dir().unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(name == "main" || here.contains(&format!("\nmod {name};\n")), "main.rs does not name {name}");
    }
}
