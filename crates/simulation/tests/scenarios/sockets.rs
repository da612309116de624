//! Connections between edges and their clients: a simulated edge shell.

use serde_json::Value;
use signaling_core::edge::{ClientKey, EdgeCore, Effect};
use signaling_core::ws::encode;

use crate::clients::{Client, Who};
use crate::mesh::Mesh;

impl Mesh {
    /// Executes the edges' effects for their clients. Returns `true` if there were any.
    pub(crate) fn serve_clients(&mut self) -> bool {
        let mut busy = false;
        let edges: Vec<_> = self.edges.keys().filter(|edge| !self.paused.contains(*edge)).cloned().collect();
        for edge in edges {
            while let Some(effect) = self.edges.get_mut(&edge).and_then(EdgeCore::next_effect) {
                busy = true;
                self.carry_out(&edge, effect);
            }
            for key in self.edges.get_mut(&edge).unwrap().take_clients_with_output() {
                busy = true;
                if let Some(who) = self.client_of(&edge, key) {
                    self.write_out(who);
                }
            }
        }
        busy | self.find_places()
    }

    fn client_of(&self, edge: &str, key: ClientKey) -> Option<Who> {
        self.clients.iter().position(|client| client.edge == edge && client.key == key)
    }

    fn carry_out(&mut self, edge: &str, effect: Effect) {
        let key = match effect {
            Effect::AssignNode(key) | Effect::Accept(key) | Effect::Refuse(key, _) => key,
            Effect::Close(key, ..) | Effect::Read(key) => key,
            Effect::Verify(..) | Effect::Kick(_) => panic!("no scenario has tokens or kicks"),
        };
        let Some(who) = self.client_of(edge, key) else { return };
        let client = &mut self.clients[who];
        match effect {
            Effect::AssignNode(_) => client.waits_for_a_place = true,
            Effect::Accept(_) => self.edges.get_mut(edge).unwrap().socket_opened(self.now, key),
            Effect::Refuse(_, refusal) => client.refused = Some(refusal.status),
            Effect::Close(_, code, last_words) => {
                client.closed = Some(code.0);
                client.hears(&last_words);
            }
            _ => {
                let mut unread = client.unread.take().unwrap_or_default();
                while let Some(text) = unread.pop_front() {
                    self.says(who, text);
                    if let Some(later) = &mut self.clients[who].unread {
                        later.append(&mut unread);
                    }
                }
            }
        }
    }

    fn find_places(&mut self) -> bool {
        let mut busy = false;
        for client in self.clients.iter_mut().filter(|client| client.waits_for_a_place) {
            if let Some(trunk) = self.trunks.get(&(client.edge.clone(), client.home.clone())) {
                client.waits_for_a_place = false;
                busy = true;
                self.edges.get_mut(&client.edge).unwrap().attach(self.now, client.key, trunk.link);
            }
        }
        busy
    }

    pub(crate) fn write_out(&mut self, who: Who) {
        let client = &mut self.clients[who];
        let edge = self.edges.get_mut(&client.edge).unwrap();
        let output = edge.output(client.key).to_vec();
        if !client.reads {
            edge.wrote(self.now, client.key, 0);
        } else if !output.is_empty() {
            edge.wrote(self.now, client.key, output.len());
            let answers = client.hears(&output);
            // An unread answer does not count for the keep-alive.
            if answers && client.unread.is_none() {
                edge.heard(self.now, client.key);
                edge.client_pong(self.now, client.key);
            }
        }
    }
}

impl Client {
    /// Reads whole frames. Returns `true` if the client answered one.
    fn hears(&mut self, mut bytes: &[u8]) -> bool {
        let mut answers = false;
        while let Some(length) = encode::frame_len(bytes) {
            let (frame, rest) = bytes.split_at(length);
            bytes = rest;
            match frame[0] & 0x0f {
                1 => self.hears_text(&frame[frame.iter().position(|byte| *byte == b'{').unwrap()..]),
                9 => answers |= self.answers_pings,
                _ => {}
            }
        }
        answers
    }

    fn hears_text(&mut self, text: &[u8]) {
        let message: Value = serde_json::from_slice(text).unwrap();
        let text = |key: &str| message[key].as_str().unwrap_or_default();
        match text("type") {
            "welcome" => {
                self.token = Some(text("resume").to_owned());
                self.resumed = message["resumed"] == true;
            }
            "signal" => self.got.push(format!("{} {}", text("from"), message["data"])),
            "ack" => self.got.push(format!("ack {}", message["id"])),
            "error" => self.got.push(format!("{} {}", text("code"), message["id"])),
            other => self.got.push(other.to_owned()),
        }
    }
}
