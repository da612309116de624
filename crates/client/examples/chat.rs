//! A chat of two terminals through the mesh of `make run`, which survives failures of its servers:
//!
//!     cargo run -p signaling-client --example chat -- alice bob
//!     cargo run -p signaling-client --example chat -- bob alice

use signaling_client::{Client, Event, Options, State};
use tokio::io::{AsyncBufReadExt as _, BufReader, stdin};

const URL: &str = "ws://127.0.0.1:8080";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(me), Some(peer)) = (arguments.next(), arguments.next()) else {
        return Err("usage: chat OWN_ID PEER_ID [URL]".into());
    };
    let url = arguments.next().unwrap_or_else(|| URL.to_owned());
    let (client, mut events) = Client::connect(Options::new(&me, [url])?);
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Some(line) = line? else { break };
                let receipt = client.signal(&peer, &line)?;
                tokio::spawn(async move {
                    if let Err(error) = receipt.await {
                        println!("-- {line:?} was not delivered: {error}");
                    }
                });
            }
            event = events.next() => match event {
                Some(Event::Signal(signal)) => println!("{}: {}", signal.from, signal.parse::<String>()?),
                Some(Event::State(State::Connected(_))) => println!("-- connected"),
                Some(Event::State(State::Waiting { retry_in, why })) => println!("-- {why}; again in {retry_in:?}"),
                Some(Event::State(State::Closed { why: Some(why) })) => return Err(why.to_string().into()),
                Some(_) => {}
                None => break,
            }
        }
    }
    client.close();
    while events.next().await.is_some() {}
    Ok(())
}
