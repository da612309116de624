//! When clients' sockets can be read or written. All are behind one `epoll` of their own, which is one more descriptor to the runtime:
//! so there is no task, no timer and no registration there for each, and what many clients send at a time is read in one turn.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Registry, Token};
use slotmap::{Key as _, KeyData};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::Edge;
use crate::core::ClientKey;

/// How many sockets are looked at before trunks and newcomers get their turn.
pub(super) const AT_ONCE: usize = 64;

/// All clients' sockets.
pub(super) struct Sockets {
    ready: AsyncFd<Ready>,
    /// Some are to be read though nothing new has come.
    again: Rc<Notify>,
}

struct Ready(RefCell<Poll>);

impl AsRawFd for Ready {
    fn as_raw_fd(&self) -> RawFd {
        self.0.borrow().as_raw_fd()
    }
}

impl Sockets {
    /// None yet. Call it within a runtime.
    ///
    /// # Errors
    /// If the system refuses what that takes.
    pub(super) fn new() -> io::Result<Self> {
        let ready = Ready(RefCell::new(Poll::new()?));
        #[expect(
            deprecated,
            reason = "the one that is not asks for unsafe code; the poll keeps its descriptor for as long as it is here"
        )]
        let ready = AsyncFd::with_interest(ready, Interest::READABLE)?;
        Ok(Self { ready, again: Rc::default() })
    }

    /// Where sockets join and leave.
    pub(super) fn registry(&self) -> io::Result<Registry> {
        self.ready.get_ref().0.borrow().registry().try_clone()
    }

    /// Tells that some are to be read though nothing new has come.
    pub(super) fn again(&self) -> Rc<Notify> {
        Rc::clone(&self.again)
    }

    /// Reads and writes what can be. Ends when dropped, or if the system fails it.
    pub(super) async fn serve(&self, edge: &Edge) -> io::Result<()> {
        let mut events = Events::with_capacity(AT_ONCE);
        loop {
            tokio::select! {
                ready = self.ready.readable() => {
                    let mut ready = ready?;
                    self.look(&mut events)?;
                    let are_all = events.iter().count() < AT_ONCE;
                    if are_all {
                        // Whoever gets ready from here on says so anew.
                        ready.clear_ready();
                    }
                    edge.with(|state| {
                        let now = Instant::now();
                        state.warm_up(events.iter().map(|event| client_of(event.token())));
                        for event in &events {
                            state.socket_ready(now, client_of(event.token()), event);
                        }
                    });
                    if !are_all {
                        yield_now().await;
                    }
                }
                () = self.again.notified() => {
                    edge.with(|state| state.read_again(Instant::now()));
                    yield_now().await;
                }
            }
        }
    }

    /// Finds those that are ready, some at a time.
    fn look(&self, events: &mut Events) -> io::Result<()> {
        let mut poll = self.ready.get_ref().0.borrow_mut();
        loop {
            match poll.poll(events, Some(Duration::ZERO)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                polled => return polled,
            }
        }
    }
}

/// What a client's socket is called.
pub(super) fn token_of(client: ClientKey) -> Token {
    Token(client.data().as_ffi() as usize)
}

fn client_of(token: Token) -> ClientKey {
    KeyData::from_ffi(token.0 as u64).into()
}
