use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::net::{SocketAddr, TcpListener};

use mio::event::Event as Ready;
use mio::net::{TcpListener as Listener, TcpStream as Socket};
use mio::{Events, Interest, Poll, Registry, Token};
use signaling_edge::ws::{Decoder, Event, Limits, encode};

use super::frame::{Kind, read};
use super::trunk::Trunk;
use super::upgrade::upgrade;

const READ_BYTES: usize = 64 * 1024;
const AT_ONCE: usize = 256;
/// What clients of a mesh wait for before they send.
const WELCOME: &[u8] = br#"{"type":"welcome"}"#;

/// The listener's; nodes have those behind it, and clients those behind the nodes'.
const LISTENER: Token = Token(0);
const FIRST_NODE: usize = 1;

/// Carries texts between whoever connects and these nodes, for ever.
///
/// # Errors
/// When a node cannot be reached, or has ended.
pub fn serve(listener: TcpListener, nodes: &[SocketAddr]) -> Result<()> {
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(AT_ONCE));
    let mut front = Front::start(poll.registry().try_clone()?, listener, nodes)?;
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for ready in &events {
            front.turn(ready)?;
        }
        front.trunks.iter_mut().try_for_each(Trunk::flush)?;
    }
}

struct Front {
    registry: Registry,
    listener: Listener,
    trunks: Vec<Trunk>,
    client_by_number: Vec<Option<Client>>,
    free: Vec<usize>,
    /// What all sockets are read into.
    scratch: Vec<u8>,
    /// What a client is written.
    out: Vec<u8>,
}

struct Client {
    socket: Socket,
    decoder: Decoder,
}

impl Front {
    fn start(registry: Registry, listener: TcpListener, nodes: &[SocketAddr]) -> Result<Self> {
        listener.set_nonblocking(true)?;
        let mut listener = Listener::from_std(listener);
        registry.register(&mut listener, LISTENER, Interest::READABLE)?;
        let mut trunks = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            let mut trunk = Trunk::connect(*node)?;
            let both = Interest::READABLE | Interest::WRITABLE;
            registry.register(&mut trunk.socket, Token(FIRST_NODE + number), both)?;
            trunks.push(trunk);
        }
        let (client_by_number, free, scratch, out) = (Vec::new(), Vec::new(), vec![0; READ_BYTES], Vec::new());
        Ok(Self { registry, listener, trunks, client_by_number, free, scratch, out })
    }

    fn turn(&mut self, ready: &Ready) -> Result<()> {
        let Token(number) = ready.token();
        match number.checked_sub(FIRST_NODE) {
            None => self.let_in(),
            Some(node) if node < self.trunks.len() => return self.down(node),
            Some(after) => {
                let number = after - self.trunks.len();
                if self.up(number).unwrap_or(true) {
                    self.let_go(number);
                }
            }
        }
        Ok(())
    }

    fn let_in(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    // Who does not shake hands as the harness does is nobody.
                    if let Ok((socket, name)) = upgrade(socket.into()) {
                        let _ = self.welcome(socket, &name);
                    }
                }
                // Who has given up while waiting: behind it others may wait, of whom no event tells again.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(_) => return,
            }
        }
    }

    fn welcome(&mut self, mut socket: Socket, name: &str) -> Result<()> {
        let number = self.free.pop().unwrap_or_else(|| {
            self.client_by_number.push(None);
            self.client_by_number.len() - 1
        });
        let token = Token(FIRST_NODE + self.trunks.len() + number);
        self.registry.register(&mut socket, token, Interest::READABLE)?;
        self.client_by_number[number] = Some(Client { socket, decoder: Decoder::default() });
        self.trunks.iter_mut().for_each(|trunk| trunk.push(number, Kind::Name, name.as_bytes()));
        self.deliver(number, WELCOME);
        Ok(())
    }

    fn let_go(&mut self, number: usize) {
        if self.client_by_number.get_mut(number).and_then(Option::take).is_some() {
            self.free.push(number);
        }
    }

    /// Takes what a client has said; `true` when it has ended.
    fn up(&mut self, number: usize) -> Result<bool> {
        let trunk = number % self.trunks.len();
        let Some(Some(Client { socket, decoder })) = self.client_by_number.get_mut(number) else { return Ok(false) };
        self.out.clear();
        loop {
            let count = match socket.read(&mut self.scratch) {
                Ok(0) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                count => count?,
            };
            let mut input = decoder.feed(&mut self.scratch[..count], Limits::default());
            let is_last = loop {
                match input.next() {
                    Ok(None) => break false,
                    Ok(Some(Event::Text(text))) => self.trunks[trunk].push(number, Kind::Text, text),
                    Ok(Some(Event::Ping(payload))) => encode::pong(&mut self.out, payload),
                    Ok(Some(Event::Binary(_) | Event::Pong(_))) => {}
                    Ok(Some(Event::Close(code, _))) => {
                        encode::close(&mut self.out, code.unwrap_or(1000), "");
                        break true;
                    }
                    Err(violation) => {
                        encode::close(&mut self.out, violation.code, violation.reason);
                        break true;
                    }
                }
            };
            if !self.out.is_empty() {
                socket.write_all(&self.out)?;
            }
            // A read that leaves room has taken all there was.
            if is_last || count < READ_BYTES {
                return Ok(is_last);
            }
        }
    }

    /// Takes what a node has said.
    fn down(&mut self, node: usize) -> Result<()> {
        loop {
            let trunk = &mut self.trunks[node];
            let count = match trunk.socket.read(&mut self.scratch) {
                Ok(0) => return Err(Error::new(ErrorKind::UnexpectedEof, "a node has ended")),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                count => count?,
            };
            let mut input = std::mem::take(&mut trunk.input);
            input.extend_from_slice(&self.scratch[..count]);
            let mut at = 0;
            while let Some((frame, length)) = read(&input[at..]) {
                self.deliver(frame.client as usize, frame.bytes);
                at += length;
            }
            input.drain(..at);
            self.trunks[node].input = input;
            if count < READ_BYTES {
                return Ok(());
            }
        }
    }

    /// Writes a client a text. One that does not take it has ended.
    fn deliver(&mut self, number: usize, text: &[u8]) {
        let Some(Some(client)) = self.client_by_number.get_mut(number) else { return };
        self.out.clear();
        encode::text(&mut self.out, text);
        if client.socket.write_all(&self.out).is_err() {
            self.let_go(number);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::TcpStream;
    use std::thread;
    use std::time::Duration;

    use tokio::runtime::Builder;
    use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

    use super::super::node;
    use super::*;

    fn started() -> SocketAddr {
        let listen = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            (listener, address)
        };
        let mut nodes = Vec::new();
        for (listener, address) in [listen(), listen(), listen()] {
            nodes.push(address);
            thread::spawn(|| {
                let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    listener.set_nonblocking(true).unwrap();
                    node::serve(tokio::net::TcpListener::from_std(listener).unwrap()).await;
                });
            });
        }
        let (listener, address) = listen();
        thread::spawn(move || serve(listener, &nodes));
        address
    }

    fn connected(front: SocketAddr, name: &str) -> WebSocket<TcpStream> {
        let stream = TcpStream::connect(front).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let url = format!("ws://{front}/v1/connect?client_id={name}");
        let mut socket = client(url, stream).unwrap().0;
        assert_eq!(socket.read().unwrap().into_data(), WELCOME);
        socket
    }

    #[test]
    fn everybody_has_what_is_written_to_him_in_order_and_a_close_is_answered() {
        const MESSAGES: usize = 200;
        let front = started();
        let names = ["a", "b", "c", "d"];
        let mut sockets = names.map(|name| connected(front, name));
        for number in 0..MESSAGES {
            for (at, socket) in sockets.iter_mut().enumerate() {
                let to = names[(at + 1) % names.len()];
                socket.send(Message::text(format!(r#"{{"to":"{to}","data":{number}}}"#))).unwrap();
            }
        }

        for (socket, from) in sockets.iter_mut().zip(["d", "a", "b", "c"]) {
            for number in 0..MESSAGES {
                let text = format!(r#"{{"from":"{from}","data":{number}}}"#);
                assert_eq!(socket.read().unwrap(), Message::text(text));
            }
            socket.close(None).unwrap();
            assert!(socket.read().unwrap().is_close());
        }
    }

    #[test]
    fn who_comes_again_by_the_same_name_has_what_is_written_to_it() {
        let front = started();
        let mut alice = connected(front, "alice");
        drop(connected(front, "bob"));
        let mut bob = connected(front, "bob");

        alice.send(Message::text(r#"{"to":"bob"}"#)).unwrap();

        assert_eq!(bob.read().unwrap(), Message::text(r#"{"from":"alice"}"#));
    }
}
