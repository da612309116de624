//! Streamers and players of Pixel Streaming in a mesh that delays messages and refuses requests.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;
use signaling_dialects::Dialect;

use crate::mesh::Fault;

const MAX_PLAYERS: usize = 2;
/// Maximum members in a list, so that clients need several.
const PAGE: usize = 2;

type Mesh = crate::mesh::Mesh<()>;

impl Mesh {
    fn join(&mut self, role: &str) -> usize {
        self.connect(Dialect::PixelStreaming, role)
    }

    /// Opens the session of a streamer that requests an id.
    fn streamer(&mut self, id: &str) -> usize {
        let number = self.join("/streamer");
        self.text(number, &format!(r#"{{"type":"endpointId","id":"{id}"}}"#));
        number
    }

    /// Lets time pass, executes one request of a client, and has it receive one message.
    fn step(&mut self, (pick, refuse, ms): (usize, bool, u64)) {
        let number = pick % self.clients.len();
        self.advance(Duration::from_millis(ms));
        self.execute(number, if refuse { Fault::Refused } else { Fault::None });
        self.deliver(number, pick, |()| false);
    }

    /// Returns the id that a streamer was given last.
    fn id_of(&self, number: usize) -> &str {
        self.clients[number].of_type("endpointIdConfirm").last().unwrap()["committedId"].as_str().unwrap()
    }

    /// Returns the players that a streamer was sent as connected, and not as disconnected since.
    fn players(&self, streamer: usize) -> Vec<Value> {
        let mut players = Vec::new();
        for frame in &self.clients[streamer].frames {
            let id = &frame["playerId"];
            match frame["type"].as_str() {
                Some("playerConnected") => {
                    assert!(!players.contains(id), "{id} is connected twice");
                    players.push(id.clone());
                }
                Some("playerDisconnected") => {
                    assert!(players.contains(id), "{id} is disconnected twice");
                    players.retain(|player| player != id);
                }
                _ => {}
            }
        }
        players
    }
}

fn steps() -> impl Strategy<Value = Vec<(usize, bool, u64)>> {
    prop::collection::vec((0_usize..100, prop::bool::weighted(0.2), 0_u64..20), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn live_streamers_have_different_ids(schedule in steps()) {
        let mut mesh = Mesh::new(PAGE, ());
        let streamers = [(); 4].map(|()| mesh.streamer("Foo"));
        schedule.into_iter().for_each(|step| mesh.step(step));
        mesh.finish();
        let mut ids = streamers.map(|number| mesh.id_of(number));
        ids.sort_unstable();
        prop_assert_eq!(ids, ["Foo", "Foo1", "Foo2", "Foo3"]);
        let player = mesh.join("/player");
        mesh.text(player, r#"{"type":"listStreamers"}"#);
        mesh.finish();
        let lists: Vec<&Value> = mesh.clients[player].of_type("streamerList").collect();
        prop_assert!(lists.len() == 1 && lists[0]["ids"].as_array().unwrap().len() == 4, "{:?}", lists);
    }

    #[test]
    fn dead_socket_yields_its_id(schedule in steps()) {
        let mut mesh = Mesh::new(PAGE, ());
        let dead = mesh.streamer("Foo");
        mesh.finish();
        let player = mesh.join("/player");
        mesh.text(player, r#"{"type":"subscribe","streamerId":"Foo"}"#);
        mesh.finish();
        mesh.clients[dead].answers_pings = false;
        // Its last input is no proof of life any more.
        mesh.advance(Duration::from_secs(2));
        let next = mesh.streamer("Foo");
        // Slow meshes end the holder too late for the claim.
        schedule.into_iter().for_each(|(pick, ..)| mesh.step((pick, false, 1)));
        mesh.finish();
        prop_assert!(!mesh.clients[dead].is_open && !mesh.clients[player].is_open);
        prop_assert_eq!(mesh.id_of(next), "Foo");
    }

    #[test]
    fn each_player_has_one_verdict(
        schedule in steps(),
        actions in prop::collection::vec((0_usize..4, 0_usize..4), 1..12),
    ) {
        let mut mesh = Mesh::new(PAGE, ());
        let streamer = mesh.streamer("Foo");
        mesh.finish();
        let players = [(); 4].map(|()| mesh.join("/player"));
        let mut actions = actions.into_iter();
        for (at, step) in schedule.into_iter().enumerate() {
            if at % 8 == 0 && let Some((player, action)) = actions.next() {
                let text = match action {
                    0 => r#"{"type":"unsubscribe"}"#,
                    1 => r#"{"type":"subscribe","streamerId":"nobody"}"#,
                    _ => r#"{"type":"subscribe","streamerId":"Foo"}"#,
                };
                mesh.text(players[player], text);
            }
            mesh.step(step);
        }
        mesh.finish();
        let connected = mesh.players(streamer);
        prop_assert!(connected.len() <= MAX_PLAYERS);
        // A member of the streamer's room is its player, and the other way round.
        prop_assert_eq!(mesh.rooms["~ps:sub:Foo"].counts().0, 1 + connected.len() as u64);
        // An offer reaches the player and no other.
        for id in &connected {
            mesh.text(streamer, &format!(r#"{{"type":"offer","sdp":"v=0","playerId":{id}}}"#));
        }
        mesh.finish();
        let offers: usize = players.iter().map(|player| mesh.clients[*player].of_type("offer").count()).sum();
        prop_assert_eq!(offers, connected.len());
        // The players lose the streamer with its socket.
        mesh.end(streamer);
        mesh.finish();
        let closed = players.iter().filter(|player| !mesh.clients[**player].is_open).count();
        prop_assert_eq!(closed, connected.len());
    }
}
