//! Links of an edge: trunks in its event loop, or the in-memory path to its node. Moves frames
//! between trunks and core, and reports changes to the backend. `state` and `sockets` call it.

use std::io;
use std::rc::Rc;
use std::time::Instant;

use mio::{Interest, Registry};
use signaling_core::edge::{EdgeCore, FlushUrgency, LinkKey, NodeReport};
use signaling_server::FlushSignal;
use signaling_server::flush_signal::LastFlush;
use signaling_server::trunk::{OutboundTrunk, TrunkCloseReason};
use slotmap::SecondaryMap;

use crate::Backend;
use crate::sockets::token_of_link;

/// Final reads of a trunk that can no longer be written to, for the rest in the node's send buffer.
const FINAL_READS: usize = 16;

/// An event of a link.
#[derive(Debug)]
pub enum LinkEvent {
    /// The node announced that it drains, or that it accepts clients again. Of several
    /// announcements in one batch only the last one is an event.
    Announced(NodeReport),
    /// The link takes no more sessions. Its own are detached after this event, and assigned anew.
    Down {
        /// `true` after a failure, silence or close of the node; `false` if this edge closes it.
        is_lost: bool,
    },
    /// The trunk of the link is closed, after [`LinkEvent::Down`]. No further event follows.
    Closed(TrunkCloseReason),
}

#[derive(Default)]
pub(super) struct Links {
    trunks: SecondaryMap<LinkKey, TrunkLink>,
    /// Link to this process's own node, and the signal of the task that carries its batches.
    pub(super) local: Option<(LinkKey, Rc<FlushSignal>)>,
}

struct TrunkLink {
    trunk: OutboundTrunk,
    flushes: Flushes,
}

#[derive(Default)]
struct Flushes {
    last: LastFlush,
    /// `None` if no frames wait.
    next: Option<Instant>,
}

impl Flushes {
    /// Returns `true` if frames of this urgency must be written now. Keeps the time of their flush.
    fn is_due(&mut self, now: Instant, urgency: FlushUrgency) -> bool {
        if urgency == FlushUrgency::Idle {
            self.next = None;
            return false;
        }
        let at = *self.next.get_or_insert_with(|| self.last.next(now));
        urgency == FlushUrgency::Immediate || now >= at
    }

    fn record(&mut self, now: Instant) {
        *self = Self { last: LastFlush::at(now), next: None };
    }
}

impl TrunkLink {
    /// Like [`Flushes::is_due`], but `false` for a closing trunk or one with unsent bytes.
    fn update_due(&mut self, now: Instant, core: &EdgeCore, link: LinkKey) -> bool {
        let urgency = if self.trunk.is_closing() { FlushUrgency::Idle } else { core.wants(link) };
        self.flushes.is_due(now, urgency) && self.trunk.is_free()
    }

    fn write(&mut self, now: Instant, core: &mut EdgeCore, link: LinkKey) -> Result<(), TrunkCloseReason> {
        self.flushes.record(now);
        while self.trunk.is_free() && core.wants(link) != FlushUrgency::Idle {
            let batch = core.take_batch(link);
            if batch.is_empty() {
                break;
            }
            self.trunk.write(batch)?;
        }
        Ok(())
    }
}

impl Links {
    /// Adds a trunk and registers its socket. Fails if the system refuses to watch the socket.
    pub(super) fn add_trunk(&mut self, registry: &Registry, link: LinkKey, mut trunk: OutboundTrunk) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(trunk.stream().source(), token_of_link(link), interest)?;
        self.trunks.insert(link, TrunkLink { trunk, flushes: Flushes::default() });
        Ok(())
    }

    /// Returns the number of trunks that are not closed.
    pub(super) fn trunk_count(&self) -> usize {
        self.trunks.len()
    }

    /// Returns `true` if the kernel has accepted all bytes of the link's trunk, or it has none.
    pub(super) fn is_flushed(&self, link: LinkKey) -> bool {
        self.trunks.get(link).is_none_or(|it| it.trunk.is_free())
    }

    /// Updates flush delays, and wakes the local link for frames. Returns `true` if a trunk is due.
    pub(super) fn update_due(&mut self, now: Instant, core: &EdgeCore) -> bool {
        if let Some((link, signal)) = &self.local {
            signal.request(core.wants(*link));
        }
        self.trunks.iter_mut().fold(false, |any, (link, it)| it.update_due(now, core, link) | any)
    }

    /// Returns when the first delayed frames are due. `None`: none, or trunks have unsent bytes.
    pub(super) fn next_flush(&self) -> Option<Instant> {
        let ready = self.trunks.values().filter(|it| it.trunk.is_free());
        ready.filter_map(|it| it.flushes.next).min()
    }

    fn keys(&self) -> Vec<LinkKey> {
        self.trunks.keys().collect()
    }
}

/// Operations on links, with the parts of an edge that they affect.
pub(super) struct LinkContext<'a> {
    pub(super) now: Instant,
    pub(super) core: &'a mut EdgeCore,
    pub(super) links: &'a mut Links,
    pub(super) backend: &'a mut dyn Backend,
}

impl LinkContext<'_> {
    /// Writes all trunks that are due. Returns `true` if one of them failed.
    pub(super) fn write_due(&mut self) -> bool {
        if !self.links.update_due(self.now, self.core) {
            return false;
        }
        let mut has_failed = false;
        for link in self.links.keys() {
            let Some(it) = self.links.trunks.get_mut(link) else { continue };
            if it.update_due(self.now, self.core, link)
                && let Err(reason) = it.write(self.now, self.core, link)
            {
                self.write_failed(link, reason);
                has_failed = true;
            }
        }
        has_failed
    }

    /// Flushes and reads a trunk after an event of its socket. `has_ended`: the event reports the
    /// end. Returns `true` if there may be more input without another event. Removes ended trunks.
    pub(super) fn on_event(&mut self, link: LinkKey, has_ended: bool) -> bool {
        let Some(it) = self.links.trunks.get_mut(link) else { return false };
        it.trunk.stream().on_event(has_ended);
        if let Err(reason) = it.trunk.flush() {
            self.write_failed(link, reason);
            return false;
        }
        self.read(link).unwrap_or_else(|reason| {
            self.closed(link, reason);
            false
        })
    }

    /// Reads all trunks: with many clients ready, nodes must not wait for all of them.
    pub(super) fn read_all(&mut self) {
        for link in self.links.keys() {
            self.on_event(link, false);
        }
    }

    /// Reads all trunks and checks their keep-alives. Removes trunks without an answer.
    pub(super) fn check(&mut self) {
        for link in self.links.keys() {
            // Unread input is not silence.
            self.on_event(link, false);
            if let Some(it) = self.links.trunks.get_mut(link)
                && let Err(reason) = it.trunk.check(self.now)
            {
                self.closed(link, reason);
            }
        }
    }

    /// Detaches a link's sessions, and closes its trunk after the current batch, later if blocked.
    pub(super) fn close(&mut self, link: LinkKey) {
        self.down(link, false);
        if let Some(it) = self.links.trunks.get_mut(link)
            && let Err(reason) = it.trunk.close()
        {
            self.closed(link, reason);
        }
    }

    /// Closes all trunks. The local link stays.
    pub(super) fn close_all(&mut self) {
        // No session may move to a link that is about to be closed.
        self.links.keys().into_iter().for_each(|link| self.down(link, false));
        self.links.keys().into_iter().for_each(|link| self.close(link));
    }

    /// Reads once. Returns `true` if the trunk may have more input, or why it has ended.
    fn read(&mut self, link: LinkKey) -> Result<bool, TrunkCloseReason> {
        let Some(it) = self.links.trunks.get_mut(link) else { return Ok(false) };
        let mut announcements = Vec::new();
        let read = it.trunk.read(self.now, |frames| {
            // A link that is down has no sessions for the frames.
            if self.core.has_link(link) {
                let announced = self.core.link_frames(self.now, link, frames).map_err(|error| error.to_string())?;
                announcements.extend(announced);
            }
            Ok(())
        });
        for announced in announcements {
            self.backend.on_link_event(self.now, self.core, link, LinkEvent::Announced(announced));
        }
        read
    }

    /// Reads the node's last frames, which may contain the reason of its close.
    fn write_failed(&mut self, link: LinkKey, reason: TrunkCloseReason) {
        if let Some(it) = self.links.trunks.get_mut(link)
            && !matches!(reason, TrunkCloseReason::ClosedLocally)
        {
            it.trunk.stream().on_event(true);
            let end = (0..FINAL_READS).find_map(|_| self.read(link).err());
            return self.closed(link, end.unwrap_or(reason));
        }
        self.closed(link, reason);
    }

    fn down(&mut self, link: LinkKey, is_lost: bool) {
        if self.core.has_link(link) {
            self.backend.on_link_event(self.now, self.core, link, LinkEvent::Down { is_lost });
            self.core.link_down(link);
        }
    }

    fn closed(&mut self, link: LinkKey, reason: TrunkCloseReason) {
        self.down(link, true);
        if self.links.trunks.remove(link).is_some() {
            reason.record();
            self.backend.on_link_event(self.now, self.core, link, LinkEvent::Closed(reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use mio::Poll;
    use signaling_core::edge::{ClientKey, Settings};
    use signaling_server::clock::next_multiple;
    use signaling_server::flush_signal::FLUSH_DELAY;
    use signaling_server::trunk::{PolledStream, Trunk};
    use signaling_wire::limits::SUSPECT_AFTER;
    use signaling_wire::trunk::ToEdge;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    const CLOSE: [u8; 2] = [0x88, 0];

    #[derive(Default)]
    struct Events(Vec<LinkEvent>);

    impl Backend for Events {
        fn assign_node(&mut self, _: Instant, _: &mut EdgeCore, _: ClientKey) {}

        fn on_link_event(&mut self, _: Instant, _: &mut EdgeCore, _: LinkKey, event: LinkEvent) {
            self.0.push(event);
        }
    }

    impl Events {
        fn has_drained(&self) -> bool {
            self.0.iter().any(|event| matches!(event, LinkEvent::Announced(NodeReport::Draining)))
        }

        fn end(&self) -> Option<&TrunkCloseReason> {
            self.0.iter().find_map(|event| if let LinkEvent::Closed(end) = event { Some(end) } else { None })
        }
    }

    /// One link over a trunk, and the node's socket.
    struct OneLink {
        core: EdgeCore,
        links: Links,
        events: Events,
        link: LinkKey,
        _poll: Poll,
    }

    impl OneLink {
        fn new() -> (Self, TcpStream) {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let own = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            own.set_nonblocking(true).unwrap();
            let stream = PolledStream::new(mio::net::TcpStream::from_std(own));
            let (mut core, mut links, poll) =
                (EdgeCore::new(Settings::default()), Links::default(), Poll::new().unwrap());
            let link = core.link_up(Instant::now(), Instant::now());
            links.add_trunk(poll.registry(), link, Trunk::new(stream, b"", Role::Client)).unwrap();
            (Self { core, links, events: Events::default(), link, _poll: poll }, listener.accept().unwrap().0)
        }

        fn at(&mut self, now: Instant) -> LinkContext<'_> {
            LinkContext { now, core: &mut self.core, links: &mut self.links, backend: &mut self.events }
        }

        /// Fills the send buffer of a node that does not read. Returns the bytes.
        fn block(&mut self) -> usize {
            let trunk = &mut self.links.trunks.get_mut(self.link).unwrap().trunk;
            let batch = vec![7; 256 * 1024];
            let mut bytes = 0;
            while trunk.is_free() {
                trunk.write(batch.clone()).unwrap();
                bytes += 14 + batch.len();
            }
            bytes
        }
    }

    fn draining() -> Vec<u8> {
        let mut frame = Vec::new();
        ToEdge::Draining.append(&mut frame);
        [&[0x82, u8::try_from(frame.len()).unwrap()], &frame[..]].concat()
    }

    #[test]
    fn closed_trunk_ends_once_its_bytes_are_written() {
        let (mut edge, mut node) = OneLink::new();
        let (bytes, link) = (edge.block(), edge.link);
        edge.at(Instant::now()).close(link);
        assert!(matches!(edge.events.0[..], [LinkEvent::Down { is_lost: false }]), "bytes are unwritten");
        let mut all = vec![0; bytes + 6];
        let reader = std::thread::spawn(move || {
            node.read_exact(&mut all).unwrap();
            all
        });
        while edge.links.trunk_count() > 0 {
            edge.at(Instant::now()).on_event(link, false);
        }
        assert!(matches!(edge.events.end(), Some(TrunkCloseReason::ClosedLocally)));
        let all = reader.join().unwrap();
        assert_eq!(all.get(bytes..bytes + 2), Some(&[0x88, 0x80][..]), "a close frame after all bytes");
    }

    #[test]
    fn last_frames_are_read_when_writes_fail() {
        let (mut edge, mut node) = OneLink::new();
        let link = edge.link;
        edge.block();
        node.write_all(&[&draining()[..], &CLOSE].concat()).unwrap();
        // With bytes unread that is a reset.
        drop(node);
        edge.at(Instant::now()).on_event(link, true);
        assert!(edge.events.has_drained());
        assert!(matches!(edge.events.end(), Some(TrunkCloseReason::Closed)));
    }

    #[test]
    fn unread_input_is_not_silence() {
        let (mut edge, mut node) = OneLink::new();
        node.write_all(&draining()).unwrap();
        let late = Instant::now() + SUSPECT_AFTER;
        edge.at(late).check();
        assert!(edge.events.end().is_none() && edge.events.has_drained());
        edge.at(late + SUSPECT_AFTER).check();
        assert!(matches!(edge.events.end(), Some(TrunkCloseReason::Silent)));
    }

    #[test]
    fn delayed_frames_wait_only_on_a_trunk_that_flushed_lately() {
        use FlushUrgency::{Delayed, Idle, Immediate};
        let mut flushes = Flushes::default();
        let start = next_multiple(Instant::now(), FLUSH_DELAY);
        for (after, urgency, is_due) in [
            (Duration::ZERO, Delayed, true),
            (FLUSH_DELAY / 2, Delayed, false),
            (FLUSH_DELAY / 2, Immediate, true),
            (FLUSH_DELAY * 3 / 4, Delayed, false),
            // Frames that do not wait any more leave no time behind.
            (FLUSH_DELAY * 3 / 4, Idle, false),
            (FLUSH_DELAY, Delayed, false),
            (2 * FLUSH_DELAY, Delayed, true),
            (3 * FLUSH_DELAY, Delayed, true),
        ] {
            let now = start + after;
            assert_eq!(flushes.is_due(now, urgency), is_due, "{after:?}, {urgency:?}");
            if is_due {
                flushes.record(now);
            }
        }
    }
}
