//! What a balancer says of itself on the dashboard.

use signaling_dashboard::{Figures, Report, Totals};
use signaling_edge::shell::Edge;

use crate::trunks::Trunks;

pub(crate) fn report(edge: &Edge, trunks: &Trunks) -> Report {
    let figures = edge.with_core(|core| {
        let counts = core.counts();
        Figures {
            clients: core.len() as u64,
            totals: Totals {
                messages: counts.ups,
                delivered: counts.downs,
                refused: counts.over_message_rate + counts.over_byte_rate,
                handoffs: counts.handoffs,
                ..Totals::default()
            },
            delays: core.delays().counts().collect(),
            ..Figures::default()
        }
    });
    trunks.with(|state| Report {
        figures,
        suspects: state.placement.suspect_ids().cloned().collect(),
        flows: state.moves.flows().list(),
    })
}
