//! Conversion of DNS records to observations of servers, for the poller. Pure.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use hickory_resolver::proto::rr::{RData, Record};
use signaling_protocol::NodeId;

use crate::flap_damper::{Observation, ServerStatus};
use signaling_membership::Address;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// Servers with distinct ids, sorted by id.
    pub(super) observations: Vec<Observation>,
    /// One error text per record that names no valid node, or the same id at another address.
    pub(super) ignored: Vec<String>,
}

/// Returns the servers of A and AAAA records at `port`. Their ids are their IP addresses.
pub(super) fn by_address(records: &[Record], port: u16) -> Named {
    let ips = records.iter().filter_map(|record| record.data.ip_addr());
    named(ips.map(|ip| (ip.to_string(), SocketAddr::new(ip, port).to_string())))
}

/// Returns the servers of SRV records. Their ids are the first labels of their targets.
pub(super) fn by_service(records: &[Record]) -> Named {
    let services = records.iter().filter_map(|record| match &record.data {
        // The root as a target means that the service does not exist here (RFC 2782).
        RData::SRV(service) if !service.target.is_root() => Some(service),
        _ => None,
    });
    let records = services.map(|service| {
        let target = service.target.to_ascii();
        let host = target.trim_end_matches('.');
        (host.split('.').next().unwrap_or_default().to_owned(), format!("{host}:{}", service.port))
    });
    named(records)
}

/// Merges equal ids. Of several addresses of one id the smallest counts, so that all servers agree.
fn named(records: impl Iterator<Item = (String, String)>) -> Named {
    let mut members: BTreeSet<(NodeId, Address)> = BTreeSet::new();
    let mut named = Named::default();
    for (id, address) in records {
        match parse(&id, &address) {
            Ok(member) => {
                members.insert(member);
            }
            Err(reason) => named.ignored.push(format!("{id} at {address}: {reason}")),
        }
    }
    for (id, address) in members {
        match named.observations.last() {
            Some(last) if last.id == id => {
                let reason = format!("{id} at {address}: the same id is at {} too", last.address);
                named.ignored.push(reason);
            }
            _ => named.observations.push(Observation { id, address, status: ServerStatus::Serving, zone: None }),
        }
    }
    named
}

fn parse(id: &str, address: &str) -> Result<(NodeId, Address), String> {
    let id = NodeId::new(id).map_err(|error| error.to_string())?;
    let address = address.parse::<Address>().map_err(|error| error.to_string())?;
    Ok((id, address))
}

#[cfg(test)]
mod tests {
    use hickory_resolver::proto::rr::Name;
    use hickory_resolver::proto::rr::rdata::SRV;

    use super::*;

    #[test]
    fn root_target_and_records_of_other_types_name_no_server() {
        assert_eq!(by_service(&[service(".", 0)]), Named::default());
        assert_eq!(by_address(&[service("node-1.example.com.", 1)], 7900), Named::default());
        assert_eq!(by_service(&[address("10.0.0.1")]), Named::default());
    }

    #[test]
    fn id_at_two_addresses_counts_once_in_any_order() {
        let mut records = [service("node-0.b.", 1), service("node-0.a.", 1), service("node-1.a.", 1)];
        for _ in 0..2 {
            let named = by_service(&records);
            assert_eq!(shown(&named), ["node-0 node-0.a:1", "node-1 node-1.a:1"]);
            assert_eq!(named.ignored, ["node-0 at node-0.b:1: the same id is at node-0.a:1 too"]);
            records.reverse();
        }
    }

    fn address(ip: &str) -> Record {
        Record::from_rdata(Name::root(), 5, RData::from(ip.parse::<std::net::IpAddr>().unwrap()))
    }

    fn service(target: &str, port: u16) -> Record {
        Record::from_rdata(Name::root(), 5, RData::SRV(SRV::new(0, 0, port, Name::from_ascii(target).unwrap())))
    }

    fn shown(named: &Named) -> Vec<String> {
        named.observations.iter().map(|observation| format!("{} {}", observation.id, observation.address)).collect()
    }
}
