//! Helpers for several tests of this crate.

use clap::Args;
use futures_util::SinkExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

use crate::client::Client;
use crate::fleet::FIRST_OPEN_TIMEOUT;

pub(crate) fn options<T: Args>(arguments: &[&str]) -> Result<T, clap::Error> {
    let command = T::augment_args(clap::Command::new("mesh-load").no_binary_name(true));
    T::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

/// Returns a listener on loopback, and the URL at which a client connects to it.
pub(crate) async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/v1/connect?client_id=a", listener.local_addr().unwrap());
    (listener, url)
}

pub(crate) async fn welcome(listener: &TcpListener) -> WebSocketStream<TcpStream> {
    let mut socket = accept_async(listener.accept().await.unwrap().0).await.unwrap();
    socket.send(Message::text(r#"{"type":"welcome","resume":"r1","resumed":true}"#)).await.unwrap();
    socket
}

/// Returns a client and the server's end of its socket.
pub(crate) async fn connected() -> (Client, WebSocketStream<TcpStream>) {
    let (listener, url) = listen().await;
    let (client, socket) = tokio::join!(Client::connect(&url, None, FIRST_OPEN_TIMEOUT), welcome(&listener));
    (client.unwrap(), socket)
}
