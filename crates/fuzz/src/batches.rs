//! Fuzz target for batches of other nodes: the parser, and a node that receives them.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use signaling_core::node::{HoldLimits, NodeCore, Settings};
use signaling_membership::{NodeEntry, View};
use signaling_protocol::NodeId;
use signaling_rooms::RoomSettings;
use signaling_wire::forward::{self, Item};
use signaling_wire::lane::{Frame, FrameReader, Opening};
use signaling_wire::{ExchangeNumber, Incarnation, resume};

/// Parses any bytes as a batch, and passes them to a node as a batch and as the body of a lane.
/// Their sender is the other node of its view, so it owns rooms that the node backs up. The node
/// then sweeps 60 times, at intervals of 1 s. Invalid bytes do not fail.
///
/// # Panics
/// If the code under test panics. If the parser takes an item of no bytes, or an item's encoding is
/// longer than its parsed bytes. If the node refuses a second copy of an accepted batch.
pub fn batches(data: &[u8]) {
    let mut bytes = data;
    if forward::open(&mut bytes).is_ok() {
        while let (before, Ok(item)) = (bytes, Item::take(&mut bytes)) {
            assert!(bytes.len() < before.len(), "an item has at least one byte");
            let mut written = Vec::new();
            item.append(&mut written);
            assert!(written.len() <= before.len() - bytes.len(), "{item:?}");
        }
    }
    let now = Instant::now();
    let Some(mut node) = node(&["node-0", "node-1"], now, RoomSettings::default()) else { return };
    let opening =
        Opening { sender: "node-1".to_owned(), incarnation: Incarnation([1; 8]), exchange: ExchangeNumber(1) };
    let Ok(Some(exchange)) = node.accept_lane(now, &opening) else { return };
    if node.batch(now, exchange, data).is_ok() {
        assert!(node.batch(now, exchange, data).is_ok(), "a second copy is a duplicate");
    }
    let _ = FrameReader::default().read(data, |frame| match frame {
        Frame::Batch(batch) => node.batch(now, exchange, batch),
        Frame::Acknowledgement(of, counter) => node.return_acknowledged(now, exchange, (of, counter)),
        Frame::Exchange(_) => Ok(()),
    });
    (0..60).for_each(|second| node.sweep(now + Duration::from_secs(second)));
}

/// Creates `node-0` with a view of `nodes`, for a fuzz target. It holds at most 64 KiB of messages,
/// and 16 KiB for one recipient. Its time at `now` is 1,700,000,000 s since 1970. `None`: a name is
/// invalid.
pub(crate) fn node(nodes: &[&str], now: Instant, rooms: RoomSettings) -> Option<NodeCore> {
    let epoch = (now, UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let hold_limits = HoldLimits { bytes: 64 * 1024, bytes_per_recipient: 16 * 1024 };
    let settings = Settings::new(NodeId::new("node-0").ok()?, Incarnation([7; 8]), resume::Key::new([1; 32]), epoch);
    let mut node = NodeCore::new(Settings { rooms, hold_limits, ..settings });
    let member = |id: &&str| {
        let address = format!("{id}:1").parse().ok()?;
        Some(NodeEntry { id: NodeId::new(id).ok()?, address, draining: false, zone: None })
    };
    node.set_view(now, Arc::new(View::new(nodes.iter().filter_map(member)).ok()?));
    Some(node)
}
