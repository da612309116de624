//! From records to servers. Pure.

use std::collections::BTreeMap;

use hickory_resolver::proto::rr::{RData, Record};
use signaling_protocol::NodeId;

use crate::sighting::{Sighting, Standing};
use crate::{Address, Trouble};

/// The servers that address records name. Their ids are their IP addresses.
pub(super) fn by_address(records: &[Record], port: u16) -> Result<Vec<Sighting>, Trouble> {
    let named = records.iter().filter_map(|record| match &record.data {
        RData::A(ip) => Some((ip.to_string(), format!("{ip}:{port}"))),
        RData::AAAA(ip) => Some((ip.to_string(), format!("[{ip}]:{port}"))),
        _ => None,
    });
    sightings(named)
}

/// The servers that SRV records name. Their ids are their targets' first labels.
pub(super) fn by_service(records: &[Record]) -> Result<Vec<Sighting>, Trouble> {
    let services = records.iter().filter_map(|record| match &record.data {
        // The root as a target says: decidedly no such service here.
        RData::SRV(service) if !service.target.is_root() => Some(service),
        _ => None,
    });
    let named = services.map(|service| {
        let target = service.target.to_ascii();
        let host = target.trim_end_matches('.');
        (host.split('.').next().unwrap_or_default().to_owned(), format!("{host}:{}", service.port))
    });
    sightings(named)
}

/// Each id once. The same record twice is one server; one id with two addresses would be two that cannot be told apart.
fn sightings(named: impl Iterator<Item = (String, String)>) -> Result<Vec<Sighting>, Trouble> {
    let mut address_by_id: BTreeMap<NodeId, Address> = BTreeMap::new();
    for (id, address) in named {
        let wrong =
            |reason: &dyn std::fmt::Display| Trouble::NoAnswer(format!("the record of {id} at {address}: {reason}"));
        let node = NodeId::new(&id).map_err(|error| wrong(&error))?;
        let place: Address = address.parse().map_err(|error| wrong(&error))?;
        match address_by_id.insert(node, place.clone()) {
            Some(other) if other != place => return Err(wrong(&format_args!("the same id is at {other} too"))),
            _ => {}
        }
    }
    let sighting = |(id, address)| Sighting { id, address, standing: Standing::Serving };
    Ok(address_by_id.into_iter().map(sighting).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use hickory_resolver::proto::rr::Name;
    use hickory_resolver::proto::rr::rdata::SRV;

    use super::*;

    #[test]
    fn addresses_are_ids_and_places_each_once() {
        let records = [address("10.0.0.2"), address("10.0.0.1"), address("10.0.0.2"), address("fd00::1")];
        assert_eq!(
            shown(&by_address(&records, 7900).unwrap()),
            ["10.0.0.1 10.0.0.1:7900", "10.0.0.2 10.0.0.2:7900", "fd00::1 [fd00::1]:7900"]
        );
    }

    #[test]
    fn services_have_their_targets_first_label_as_id_and_their_own_port() {
        let records = [service("node-1.nodes.example.com.", 7901), service("node-0.nodes.example.com.", 7900)];
        assert_eq!(
            shown(&by_service(&records).unwrap()),
            ["node-0 node-0.nodes.example.com:7900", "node-1 node-1.nodes.example.com:7901"]
        );
    }

    #[test]
    fn the_root_as_a_target_is_nobody() {
        assert_eq!(by_service(&[service(".", 0)]), Ok(Vec::new()));
    }

    #[test]
    fn records_of_other_types_are_passed_over() {
        assert_eq!(by_address(&[service("node-1.example.com.", 1)], 7900), Ok(Vec::new()));
        assert_eq!(by_service(&[address("10.0.0.1")]), Ok(Vec::new()));
    }

    #[test]
    fn one_id_in_two_places_is_said() {
        let error = by_service(&[service("node-0.a.", 1), service("node-0.b.", 1)]).unwrap_err().to_string();
        assert!(error.contains("node-0 at node-0.b:1: the same id is at node-0.a:1 too"), "{error}");
    }

    fn address(ip: &str) -> Record {
        Record::from_rdata(Name::root(), 5, RData::from(ip.parse::<std::net::IpAddr>().unwrap()))
    }

    fn service(target: &str, port: u16) -> Record {
        Record::from_rdata(Name::root(), 5, RData::SRV(SRV::new(0, 0, port, Name::from_ascii(target).unwrap())))
    }

    fn shown(sightings: &[Sighting]) -> Vec<String> {
        sightings.iter().map(|sighting| format!("{} {}", sighting.id, sighting.address)).collect()
    }
}
