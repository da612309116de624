//! The floor of a front with nodes behind it: what the balancer would cost if it knew nothing.
//!
//! A bare front has the balancer's shape: one thread, the edge's own frame codec, a socket for each client, a trunk to
//! each of three nodes, which is written once for all that came together. It carries texts and does nothing else: no
//! custody, no numbers, no handoffs, no runtime, nothing is looked into. A bare node turns `to` into `from`, gives the text
//! back, and rests like a busy node, so that what comes back comes together. Neither serves anybody but the harness: what
//! does not fit into a socket's buffer is lost, and the harness counts it.

mod frame;
mod front;
mod node;
mod trunk;
mod upgrade;

pub use front::serve as serve_clients;
pub use node::serve as serve_fronts;
