//! A player that prints the peers that it meets:
//!
//!     matchbox-player ws://HOST:PORT/matchbox/ROOM
//!
//! Prints `id ID`, then `connected ID`, `disconnected ID` and `heard ID` per peer. `heard` follows
//! the first packet of a peer. Ends with standard input, or with the socket.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::time::Duration;

use matchbox_socket::{PeerState, WebRtcSocket};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let url = std::env::args().nth(1).expect("the URL of a room");
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let builder = WebRtcSocket::builder(url).reconnect_attempts(Some(1)).add_reliable_channel();
    let (mut socket, message_loop) = builder.build();
    let play = async {
        let (mut named, mut heard) = (false, BTreeSet::new());
        loop {
            if let (false, Some(id)) = (named, socket.id()) {
                println!("id {id}");
                named = true;
            }
            for (peer, state) in socket.update_peers() {
                match state {
                    PeerState::Connected => {
                        println!("connected {peer}");
                        socket.channel_mut(0).send(b"hello"[..].into(), peer);
                    }
                    PeerState::Disconnected => println!("disconnected {peer}"),
                }
            }
            for (peer, _) in socket.channel_mut(0).receive() {
                if heard.insert(peer) {
                    println!("heard {peer}");
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        ended = message_loop => println!("ended {ended:?}"),
        () = play => {}
    }
}
