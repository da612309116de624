//! The event loop of clients' and links' sockets, run by `Edge::serve`. Calls `reading`, `links`.
//!
//! All sockets are in one `epoll`, which is one descriptor for the runtime. So a socket needs no
//! task, timer or registration there, and one turn reads many sockets.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use signaling_server::coalescer::Coalescer;
use slotmap::{Key as _, KeyData};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::Edge;
use crate::state::State;
use signaling_core::edge::{ClientKey, LinkKey};

/// Maximum sockets per turn, before links and new connections get theirs.
pub(super) const MAX_SOCKETS_PER_TURN: usize = 64;

/// Maximum time in which other tasks wait for turns of the event loop.
const MAX_BUSY_POLL: Duration = Duration::from_millis(2);

/// The poll of all sockets.
pub(super) struct Sockets {
    /// The descriptor of `poll`. It stands first, so that it is dropped before it is closed.
    ready: AsyncFd<RawFd>,
    pub(super) poll: RefCell<Poll>,
    coalescer: Coalescer,
    /// Wakes the event loop for sockets with input that causes no event.
    pub(super) again: Rc<Notify>,
}

impl Sockets {
    /// Creates an empty poll, within a runtime. Fails if the system refuses it or its registration.
    pub(super) fn new(coalescer: Coalescer) -> io::Result<Self> {
        let poll = Poll::new()?;
        #[expect(deprecated, reason = "the alternative needs unsafe code; the poll keeps its descriptor open longer")]
        let ready = AsyncFd::with_interest(poll.as_raw_fd(), Interest::READABLE)?;
        Ok(Self { ready, poll: RefCell::new(poll), coalescer, again: Rc::default() })
    }

    /// Runs the event loop. Returns only an error, if the system cannot poll any more.
    pub(super) async fn serve(&self, edge: &Edge) -> io::Result<()> {
        let mut events = Events::with_capacity(MAX_SOCKETS_PER_TURN);
        let mut flush = pin!(sleep(Duration::ZERO));
        loop {
            let is_scheduled = edge.with_state(|state| {
                if !state.flush_is_scheduled
                    && let Some(at) = state.links.next_flush()
                {
                    flush.as_mut().reset(at.into());
                    state.flush_is_scheduled = true;
                }
                state.flush_is_scheduled
            });
            tokio::select! {
                ready = self.ready.readable() => {
                    let mut ready = ready?;
                    if self.turns(edge, &mut events).await? {
                        // A socket that becomes ready from here on causes a new event.
                        ready.clear_ready();
                    } else {
                        yield_now().await;
                    }
                }
                () = self.again.notified() => {
                    edge.with_sockets(State::read_again);
                    yield_now().await;
                }
                () = flush.as_mut(), if is_scheduled => {
                    edge.with_sockets(|state, _| state.flush_is_scheduled = false);
                }
            }
        }
    }

    /// Runs turns with coalesced input and breaks for others. Returns `true` if no socket is ready.
    async fn turns(&self, edge: &Edge, events: &mut Events) -> io::Result<bool> {
        let mut began = Instant::now();
        loop {
            let are_all = self.turn(edge, events)?;
            // A node with direct clients has other work than sockets.
            let must_end = |state: &mut State| state.links.trunk_count() == 0 || state.has_read_pending();
            if !are_all || events.is_empty() || edge.with_state(must_end) {
                return Ok(are_all);
            }
            if began.elapsed() >= MAX_BUSY_POLL {
                yield_now().await;
                began = Instant::now();
            }
            if !self.coalescer.coalesce_now() {
                return Ok(are_all);
            }
        }
    }

    /// Reads and writes one group of ready sockets. Returns `true` if there are no more.
    fn turn(&self, edge: &Edge, events: &mut Events) -> io::Result<bool> {
        self.poll(events)?;
        if events.is_empty() {
            return Ok(true);
        }
        let are_all = events.iter().count() < MAX_SOCKETS_PER_TURN;
        edge.with_sockets(|state, now| {
            state.prefetch(events.iter().filter_map(|event| match owner_of(event.token()) {
                Owner::Client(client) => Some(client),
                Owner::Link(_) => None,
            }));
            for event in &*events {
                match owner_of(event.token()) {
                    Owner::Client(client) => state.socket_ready(now, client, event),
                    Owner::Link(link) => state.link_ready(now, link, event.is_read_closed() || event.is_error()),
                }
            }
            if !are_all {
                state.links(now).read_all();
            }
        });
        Ok(are_all)
    }

    fn poll(&self, events: &mut Events) -> io::Result<()> {
        let mut poll = self.poll.borrow_mut();
        loop {
            match poll.poll(events, Some(Duration::ZERO)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                polled => return polled,
            }
        }
    }
}

/// Marks the token of a link's socket. The lower half of a key, its index, never has this bit.
const OF_LINK: u64 = 1 << 31;

enum Owner {
    Client(ClientKey),
    Link(LinkKey),
}

pub(super) fn token_of(client: ClientKey) -> Token {
    Token(client.data().as_ffi() as usize)
}

pub(super) fn token_of_link(link: LinkKey) -> Token {
    Token((link.data().as_ffi() | OF_LINK) as usize)
}

fn owner_of(token: Token) -> Owner {
    let name = token.0 as u64;
    if name & OF_LINK == 0 {
        Owner::Client(KeyData::from_ffi(name).into())
    } else {
        Owner::Link(KeyData::from_ffi(name & !OF_LINK).into())
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    #[test]
    fn tokens_of_clients_and_links_differ() {
        let (mut clients, mut links) = (SlotMap::<ClientKey, ()>::with_key(), SlotMap::<LinkKey, ()>::with_key());
        for _ in 0..3 {
            let (client, link) = (clients.insert(()), links.insert(()));
            assert!(matches!(owner_of(token_of(client)), Owner::Client(of) if of == client));
            assert!(matches!(owner_of(token_of_link(link)), Owner::Link(of) if of == link));
            assert_ne!(token_of(client), token_of_link(link));
            clients.remove(client);
            links.remove(link);
        }
    }
}
