//! One trunk that is up: when its link is carried, and what its opener must hear of.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use mio::net::TcpStream;
use signaling_core::edge::{EdgeCore, FlushUrgency, FromNode, LinkKey};
use signaling_server::trunk::{OutboundTrunk, TrunkCloseReason};
use signaling_server::wake::COMPANY;
use tokio::sync::Notify;

/// How much is read of a node that cannot be written to any more: as much as its kernel may still have sent.
const LAST_READS: usize = 16;

/// Carries a link over its trunk's socket.
pub(crate) struct TrunkConnection {
    socket: OutboundTrunk,
    told: Rc<TrunkEvents>,
    wait: Wait,
    /// What it carried has gone elsewhere: it ends once its last word has left.
    is_given_up: bool,
    is_over: bool,
}

/// The wait of what a link wants to be carried.
#[derive(Debug, Default)]
struct Wait {
    since: Option<Instant>,
}

impl Wait {
    /// Whether the link must be carried now. Confirms wait for company, for 2 ms at most.
    fn is_over(&mut self, now: Instant, wants: FlushUrgency) -> bool {
        if wants == FlushUrgency::Idle {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        wants == FlushUrgency::Immediate || now.saturating_duration_since(since) >= COMPANY
    }
}

/// What has become of a trunk, for the task that keeps it open.
#[derive(Default)]
pub(crate) struct TrunkEvents {
    said: Cell<FromNode>,
    end: RefCell<Option<TrunkCloseReason>>,
    news: Notify,
}

impl TrunkEvents {
    /// Returns what the node has said of itself since this was asked last; or how the trunk has ended. Safe to cancel.
    pub(crate) async fn news(&self) -> Result<FromNode, TrunkCloseReason> {
        loop {
            let said = self.said.take();
            if said != FromNode::default() {
                return Ok(said);
            }
            if let Some(end) = self.end.take() {
                return Err(end);
            }
            self.news.notified().await;
        }
    }
}

impl TrunkConnection {
    pub(crate) fn new(socket: OutboundTrunk, told: Rc<TrunkEvents>) -> Self {
        Self { socket, told, wait: Wait::default(), is_given_up: false, is_over: false }
    }

    /// Whether the link must be carried now. If it is not yet, it is noted that it waits.
    pub(crate) fn is_due(&mut self, now: Instant, core: &EdgeCore, link: LinkKey) -> bool {
        let wants = if self.is_over || self.is_given_up { FlushUrgency::Idle } else { core.wants(link) };
        self.wait.is_over(now, wants) && self.socket.is_free()
    }

    /// When the link must be carried at the latest, if something waits that can be.
    pub(crate) fn waits_until(&self) -> Option<Instant> {
        self.wait.since.filter(|_| self.socket.is_free()).map(|since| since + COMPANY)
    }

    /// Whether all that was carried has left.
    pub(crate) fn is_free(&self) -> bool {
        self.socket.is_free()
    }

    /// What is to be watched.
    pub(crate) fn source(&mut self) -> &mut TcpStream {
        self.socket.source()
    }

    /// Writes what the link wants to be carried, as much as the socket takes.
    pub(crate) fn carry(&mut self, now: Instant, core: &mut EdgeCore, link: LinkKey) {
        self.wait = Wait::default();
        while self.socket.is_free() && core.wants(link) != FlushUrgency::Idle {
            let batch = core.take_batch(link);
            if batch.is_empty() {
                return;
            }
            if let Err(end) = self.socket.write(batch) {
                return self.broke(now, core, link, end);
            }
        }
    }

    /// The socket can be read or written: see [`signaling_edge::shell::Backend::ready`].
    pub(crate) fn ready(&mut self, now: Instant, core: &mut EdgeCore, link: LinkKey, ends: bool) -> bool {
        if self.is_over {
            return false;
        }
        self.socket.ready(ends);
        if let Err(end) = self.socket.flush() {
            self.broke(now, core, link, end);
            return false;
        }
        if self.is_given_up && self.socket.is_free() {
            self.end(TrunkCloseReason::Given);
            return false;
        }
        self.read(now, core, link).unwrap_or_else(|end| {
            self.end(end);
            false
        })
    }

    fn read(&mut self, now: Instant, core: &mut EdgeCore, link: LinkKey) -> Result<bool, TrunkCloseReason> {
        let told = &self.told;
        self.socket.read(now, |frames| {
            // Of one that was given up nobody wants to hear.
            if core.has_link(link) {
                let said = core.link_frames(now, link, frames).map_err(|error| error.to_string())?;
                if said != FromNode::default() {
                    told.said.set(said);
                    told.news.notify_one();
                }
            }
            Ok(())
        })
    }

    /// It cannot be written any more; what the node has said before that counts, and how it has said it ends.
    fn broke(&mut self, now: Instant, core: &mut EdgeCore, link: LinkKey, end: TrunkCloseReason) {
        self.socket.ready(true);
        let verdict = (0..LAST_READS).find_map(|_| self.read(now, core, link).err());
        self.end(verdict.unwrap_or(end));
    }

    /// Looks for silence: see [`OutboundTrunk::look`].
    pub(crate) fn look(&mut self, now: Instant, core: &mut EdgeCore, link: LinkKey) {
        // What has come and was not read yet is no silence.
        self.ready(now, core, link, false);
        if !self.is_over
            && let Err(end) = self.socket.look(now)
        {
            self.end(end);
        }
    }

    /// Closes it, once what it has begun to write has left: the rest has gone elsewhere.
    pub(crate) fn give_up(&mut self) {
        if self.is_over || std::mem::replace(&mut self.is_given_up, true) {
            return;
        }
        match self.socket.close() {
            Ok(()) if !self.socket.is_free() => {}
            Ok(()) => self.end(TrunkCloseReason::Given),
            Err(end) => self.end(end),
        }
    }

    /// It ends so.
    pub(crate) fn end(&mut self, end: TrunkCloseReason) {
        self.is_over = true;
        self.socket.ended(&end);
        self.told.end.replace(Some(end));
        self.told.news.notify_one();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream as Other};

    use signaling_core::edge::Settings;
    use signaling_wire::limits::SUSPECT_AFTER;
    use signaling_wire::trunk::ToEdge;

    use super::*;

    const CLOSE: [u8; 2] = [0x88, 0];

    /// A trunk that is up, and the node's socket.
    fn trunk() -> (TrunkConnection, EdgeCore, LinkKey, Other) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = Other::connect(listener.local_addr().unwrap()).unwrap();
        own.set_nonblocking(true).unwrap();
        let carrier = TrunkConnection::new(OutboundTrunk::new(TcpStream::from_std(own), b""), Rc::default());
        let mut core = EdgeCore::new(Settings::default());
        let link = core.link_up();
        (carrier, core, link, listener.accept().unwrap().0)
    }

    /// Writes to a node that does not read until no more is taken. Says how many bytes.
    pub(crate) fn block(carrier: &mut TrunkConnection) -> usize {
        let batch = vec![7; 256 * 1024];
        let mut bytes = 0;
        while carrier.is_free() {
            carrier.socket.write(batch.clone()).unwrap();
            bytes += 14 + batch.len();
        }
        bytes
    }

    fn draining() -> Vec<u8> {
        let mut word = Vec::new();
        ToEdge::Draining.append(&mut word);
        [&[0x82, u8::try_from(word.len()).unwrap()], &word[..]].concat()
    }

    fn end_of(carrier: &TrunkConnection) -> Option<TrunkCloseReason> {
        carrier.told.end.take()
    }

    #[test]
    fn one_that_is_given_up_ends_once_its_last_word_has_left() {
        let (mut carrier, mut core, link, mut node) = trunk();
        let bytes = block(&mut carrier);
        core.link_down(link);
        carrier.give_up();
        assert!(end_of(&carrier).is_none(), "there is something on its way");
        let mut all = vec![0; bytes + 6];
        let reader = std::thread::spawn(move || {
            node.read_exact(&mut all).unwrap();
            all
        });
        while !carrier.is_over {
            carrier.ready(Instant::now(), &mut core, link, false);
        }
        assert!(matches!(end_of(&carrier), Some(TrunkCloseReason::Given)));
        let all = reader.join().unwrap();
        assert_eq!(all.get(bytes..bytes + 2), Some(&[0x88, 0x80][..]), "a close frame behind all that was begun");
    }

    #[test]
    fn one_that_is_given_up_is_not_waited_for_for_ever() {
        let (mut carrier, mut core, link, _node) = trunk();
        block(&mut carrier);
        carrier.give_up();
        carrier.look(Instant::now() + SUSPECT_AFTER, &mut core, link);
        assert!(matches!(end_of(&carrier), Some(TrunkCloseReason::Silent)));
    }

    #[test]
    fn the_last_words_of_a_node_that_takes_nothing_any_more_are_heard() {
        let (mut carrier, mut core, link, mut node) = trunk();
        block(&mut carrier);
        node.write_all(&[&draining()[..], &CLOSE].concat()).unwrap();
        // With bytes unread that is a reset.
        drop(node);
        carrier.ready(Instant::now(), &mut core, link, true);
        assert!(carrier.told.said.get().draining, "what it said");
        assert!(matches!(end_of(&carrier), Some(TrunkCloseReason::Closed)), "and that it ends in good order");
    }

    #[test]
    fn what_was_not_read_yet_is_no_silence() {
        let (mut carrier, mut core, link, mut node) = trunk();
        node.write_all(&draining()).unwrap();
        let late = Instant::now() + SUSPECT_AFTER;
        carrier.look(late, &mut core, link);
        assert!(!carrier.is_over && carrier.told.said.get().draining);
        carrier.look(late + SUSPECT_AFTER, &mut core, link);
        assert!(matches!(end_of(&carrier), Some(TrunkCloseReason::Silent)));
    }

    #[test]
    fn what_must_not_wait_does_not_and_all_else_waits_for_two_milliseconds() {
        let (start, mut wait) = (Instant::now(), Wait::default());
        assert!(Wait::default().is_over(start, FlushUrgency::Immediate));
        assert!(
            !wait.is_over(start, FlushUrgency::Delayed) && !wait.is_over(start + COMPANY / 2, FlushUrgency::Delayed)
        );
        assert!(wait.is_over(start + COMPANY, FlushUrgency::Delayed));
    }

    #[test]
    fn a_wait_begins_when_something_is_wanted_after_nothing_was() {
        let (start, mut wait) = (Instant::now(), Wait::default());
        assert!(!wait.is_over(start, FlushUrgency::Delayed));
        assert!(!wait.is_over(start + COMPANY, FlushUrgency::Idle) && wait.since.is_none());
        assert!(!wait.is_over(start + COMPANY, FlushUrgency::Delayed));
        assert!(wait.is_over(start + COMPANY, FlushUrgency::Immediate), "company has come");
    }
}
