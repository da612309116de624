//! A bot that sends every message back: signals to their sender, broadcasts to the room. Its
//! arguments are `[ROOM] [URL]`.

use signaling_client::{Client, Event, Options, State};

const URL: &str = "ws://127.0.0.1:8080";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let room = arguments.next().unwrap_or_else(|| "lobby".to_owned());
    let url = arguments.next().unwrap_or_else(|| URL.to_owned());
    let (client, mut events) = Client::connect(Options::new("echo-bot", [url])?);
    client.join::<()>(&room, None)?.await?;
    println!("echo-bot is in {room}");
    while let Some(event) = events.next().await {
        let receipt = match event {
            Event::Signal(signal) => client.signal(&signal.from, &signal.data)?,
            Event::Broadcast(broadcast) => client.broadcast(&room, &broadcast.data)?,
            Event::State(State::Closed { why: Some(why) }) => return Err(why.to_string().into()),
            _ => continue,
        };
        // The receipt is awaited elsewhere, so that the bot reads on.
        tokio::spawn(async move {
            if let Err(error) = receipt.await {
                println!("a message has no echo: {error}");
            }
        });
    }
    Ok(())
}
