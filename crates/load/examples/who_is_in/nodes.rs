//! Nodes that each know of their own clients only, and whoever asks them all.

use std::borrow::Cow;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use futures_util::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// What a node knows of the members that it serves.
#[derive(Serialize, Deserialize)]
struct Share<'a> {
    count: usize,
    members: Cow<'a, [Member]>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Member {
    client_id: String,
    data: Box<serde_json::value::RawValue>,
    /// When it joined.
    place: usize,
}

/// Their processes end with this.
pub(crate) struct Nodes {
    http: reqwest::Client,
    urls: Vec<String>,
    _processes: Vec<Child>,
}

impl Nodes {
    pub(crate) async fn start(count: usize) -> Self {
        let (mut urls, mut processes) = (Vec::new(), Vec::new());
        for number in 0..count {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["serve", &number.to_string(), &count.to_string()]).stdout(Stdio::piped()).kill_on_drop(true);
            let mut process = command.spawn().unwrap();
            let mut address = String::new();
            BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).await.unwrap();
            urls.push(format!("http://{}", address.trim()));
            processes.push(process);
        }
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build().unwrap();
        Self { http, urls, _processes: processes }
    }

    /// Asks all nodes for the oldest of a room, and merges their answers; returns how many those are, once it has the whole count.
    pub(crate) async fn members(&self, size: usize, most: usize) -> usize {
        let ask = async |url: &String| -> Share<'static> {
            let answer = self.http.get(format!("{url}/{size}/{most}")).send().await.unwrap();
            serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
        };
        let shares: Vec<Share<'_>> = stream::iter(&self.urls).map(ask).buffered(self.urls.len()).collect().await;
        assert_eq!(shares.iter().map(|share| share.count).sum::<usize>(), size);
        let mut members: Vec<Member> = shares.into_iter().flat_map(|share| share.members.into_owned()).collect();
        members.sort_unstable_by_key(|member| member.place);
        members.truncate(most);
        members.len()
    }
}

/// Serves one node's share of rooms of every size. Says where on the standard output.
pub(crate) async fn serve(number: usize, of: usize) {
    let rooms = super::SIZES.map(|size| (size, (number..size).step_by(of).map(member).collect::<Vec<_>>()));
    let rooms = Arc::new(rooms);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    // Else what is written last waits for the acknowledgement of what came before, which takes 40 ms.
    let listener = listener.tap_io(|socket| socket.set_nodelay(true).unwrap());
    axum::serve(listener, Router::new().route("/{size}/{most}", get(answer)).with_state(rooms)).await.unwrap();
}

type Rooms = Arc<[(usize, Vec<Member>); super::SIZES.len()]>;

async fn answer(State(rooms): State<Rooms>, Path((size, most)): Path<(usize, usize)>) -> Response {
    let members = rooms.iter().find(|(room, _)| *room == size).map(|(_, members)| members).unwrap();
    let first = members.get(..most).unwrap_or(members);
    Json(Share { count: members.len(), members: Cow::Borrowed(first) }).into_response()
}

fn member(place: usize) -> Member {
    let data = serde_json::value::RawValue::from_string(super::store::data(place)).unwrap();
    Member { client_id: super::store::name(place), data, place }
}
