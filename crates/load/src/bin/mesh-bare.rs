//! `mesh-bare`: the floor of a front with nodes behind it, for `mesh-load compare`.

use std::net::{SocketAddr, TcpListener};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use signaling_load::compare::bare::{serve_clients, serve_fronts};
use signaling_load::raise_descriptor_limit;

/// Carries the harness's messages between its clients, and does nothing else.
#[derive(Debug, Parser)]
#[command(name = "mesh-bare", version)]
struct Cli {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Holds the clients' sockets
    Front {
        /// Where to listen for clients.
        #[arg(long, value_name = "ADDR")]
        listen: SocketAddr,
        /// A bare node; may be given again.
        #[arg(long = "node", value_name = "ADDR", required = true)]
        nodes: Vec<SocketAddr>,
    },
    /// Gives texts to those whom they name
    Node {
        /// Where to listen for a front.
        #[arg(long, value_name = "ADDR")]
        listen: SocketAddr,
    },
}

fn main() -> Result<()> {
    raise_descriptor_limit().context("cannot raise the limit of open files")?;
    match Cli::parse().role {
        Role::Front { listen, nodes } => {
            serve_clients(bind(listen)?, &nodes).with_context(|| format!("cannot go on with the nodes {nodes:?}"))
        }
        Role::Node { listen } => {
            let listener = bind(listen)?;
            listener.set_nonblocking(true)?;
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
                serve_fronts(tokio::net::TcpListener::from_std(listener)?).await;
                Ok(())
            })
        }
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))
}
