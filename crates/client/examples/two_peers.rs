//! Two peers exchange a message through the mesh of `make run`. The README has the same example.

use signaling_client::{Client, Event, Options};

pub(crate) async fn greet(url: &str) -> Result<String, Box<dyn std::error::Error>> {
    let (alice, _events) = Client::connect(Options::new("alice", [url])?);
    let (_bob, mut events) = Client::connect(Options::new("bob", [url])?);
    let receipt = alice.signal("bob", "hello")?; // queued until there is a connection
    while let Some(event) = events.next().await {
        let Event::Signal(signal) = event else { continue };
        receipt.await?; // delivered to Bob
        return Ok(format!("{} says {}", signal.from, signal.parse::<String>()?));
    }
    Err("closed".into())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", greet("ws://127.0.0.1:8080").await?);
    Ok(())
}
