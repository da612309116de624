//! A DNS server on loopback, over UDP, with scripted answers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::net::UdpSocket;
use tokio_util::task::AbortOnDropHandle;

pub(crate) const NAME: &str = "nodes.example.com.";
pub(crate) const SERVICE: &str = "_signaling._tcp.nodes.example.com.";

pub(crate) struct DnsServer {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    _serving: AbortOnDropHandle<()>,
}

struct State {
    ttl: u32,
    records: Vec<RData>,
    /// Response code. An error code replaces the records.
    code: ResponseCode,
    is_silent: bool,
    asked: usize,
}

impl DnsServer {
    pub(crate) async fn start(ttl: u32) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        let state = State { ttl, records: Vec::new(), code: ResponseCode::NoError, is_silent: false, asked: 0 };
        let state = Arc::new(Mutex::new(state));
        let serving = AbortOnDropHandle::new(tokio::spawn(serve(socket, Arc::clone(&state))));
        Self { address, state, _serving: serving }
    }

    pub(crate) fn addresses(&self, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse::<IpAddr>().unwrap());
        self.state.lock().unwrap().records = addresses.map(RData::from).collect();
    }

    pub(crate) fn services(&self, targets: &[(&str, u16)]) {
        let service = |(target, port): &(&str, u16)| SRV::new(0, 0, *port, Name::from_ascii(target).unwrap());
        self.state.lock().unwrap().records = targets.iter().map(service).map(RData::SRV).collect();
    }

    pub(crate) fn answers(&self, code: ResponseCode) {
        let mut state = self.state.lock().unwrap();
        (state.code, state.is_silent) = (code, false);
    }

    pub(crate) fn falls_silent(&self) {
        self.state.lock().unwrap().is_silent = true;
    }

    pub(crate) fn asked(&self) -> usize {
        self.state.lock().unwrap().asked
    }
}

impl State {
    fn answer(&mut self, question: &[u8]) -> Option<Message> {
        let question = Message::from_vec(question).unwrap();
        let query = question.queries[0].clone();
        self.asked += 1;
        if self.is_silent {
            return None;
        }
        let name = if query.query_type() == RecordType::SRV { SERVICE } else { NAME };
        assert_eq!(query.name().to_ascii().to_ascii_lowercase(), name, "only this is asked");
        let mut answer = Message::response(question.metadata.id, OpCode::Query);
        answer.metadata.response_code = self.code;
        if self.code == ResponseCode::NoError {
            let fitting = self.records.iter().filter(|record| record.record_type() == query.query_type());
            answer.add_answers(fitting.map(|data| Record::from_rdata(query.name().clone(), self.ttl, data.clone())));
        }
        answer.add_query(query);
        Some(answer)
    }
}

async fn serve(socket: UdpSocket, state: Arc<Mutex<State>>) {
    let mut buffer = [0; 4096];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        let Some(answer) = state.lock().unwrap().answer(&buffer[..length]) else { continue };
        socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
    }
}
