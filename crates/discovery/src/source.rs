//! Sources of views, their text form, as in the flags `--discovery` and `--balancer-discovery`, and
//! the errors of their readings.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use signaling_protocol::NodeId;

use crate::dns::DnsQuery;
use crate::file;
use crate::kubernetes::ServicePort;
use signaling_membership::{AddressError, NodeEntry, View, Zone, ZoneError};

/// A source of views. As text:
///
/// - `static:ID=HOST:PORT[@ZONE],...`: a fixed list.
/// - `file:PATH`: a polled file with a JSON list, one object per node:
///   `[{"id":"node-0","address":"10.0.0.1:7900","draining":false,"zone":"west"}]`. `draining` and
///   `zone` are optional, other fields are ignored. To replace the file, write another one and
///   rename it.
/// - `dns:NAME:PORT`: each address of the name is a node with that address as its id.
///   `dns:_SERVICE._tcp.NAME`: each SRV record is a node; its id is the target's first label.
///   See [`crate::dns`].
/// - `kubernetes:NAMESPACE/SERVICE:PORTNAME`: the pods behind a headless service, with their names
///   as ids and the zones of their machines. See [`crate::kubernetes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A list that never changes.
    Static(View),
    /// A file that is read periodically.
    File(PathBuf),
    /// DNS records.
    Dns(DnsQuery),
    /// The EndpointSlices of a Kubernetes service.
    Kubernetes(ServicePort),
}

/// Invalid text of a source, or no configuration for its access. Holds a message with advice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub(crate) String);

impl From<&str> for SourceError {
    fn from(message: &str) -> Self {
        Self(message.into())
    }
}

/// Reason why a reading gave no view to publish. Logs name each kind once until a recovery.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file is missing, no regular file, over 1 MiB, or cannot be read. Holds the error.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    /// The content is not a list of valid, distinct nodes; holds the defect. It may be incomplete.
    #[error("the content is not a list of nodes: {0}")]
    Malformed(String),
    /// The list, as of an empty file, has no or only unready nodes, but the previous view had some.
    #[error("the list has become empty, or all its nodes are unready")]
    SuddenlyEmpty,
    /// The source is unreachable, its answer late or invalid, or a watch broke. Holds the reason.
    #[error("no valid answer: {0}")]
    NoAnswer(String),
    /// The Kubernetes API denies this server access (401 or 403). Holds its answer and advice.
    #[error("access denied: {0}")]
    Refused(String),
}

const FORMS: &str =
    "static:ID=HOST:PORT[@ZONE],... or file:PATH or dns:NAME:PORT or kubernetes:NAMESPACE/SERVICE:PORTNAME";

impl Source {
    /// Reads and parses the file of a `file:` source. Does nothing for other sources. Blocks.
    ///
    /// # Errors
    /// If the file is missing, unreadable, over 1 MiB or not a valid list. An empty list is valid.
    pub fn check_file(&self) -> Result<(), ReadError> {
        match self {
            Self::File(path) => file::read(path).map(drop),
            Self::Static(_) | Self::Dns(_) | Self::Kubernetes(_) => Ok(()),
        }
    }

    /// Returns the [age](crate::Discovery::age) above which a view is stale. It exceeds the time
    /// between two good readings, including slow answers. `None`: a static list is never stale.
    pub fn stale_after(&self) -> Option<Duration> {
        match self {
            Self::Static(_) => None,
            Self::File(_) => Some(Duration::from_secs(5)),
            Self::Dns(_) | Self::Kubernetes(_) => Some(Duration::from_secs(45)),
        }
    }
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        match text.split_once(':') {
            Some(("static", "")) => Err("static: has no node; write static:ID=HOST:PORT[@ZONE],...".into()),
            Some(("static", list)) => {
                let members: Vec<NodeEntry> = list.split(',').map(parse_entry).collect::<Result<_, _>>()?;
                View::new(members).map(Self::Static).map_err(|error| SourceError(error.to_string()))
            }
            Some(("file", "")) => Err("file: has no path; write file:PATH".into()),
            Some(("file", path)) => Ok(Self::File(path.into())),
            Some(("dns", query)) => DnsQuery::parse(query).map(Self::Dns),
            Some(("kubernetes", service)) => ServicePort::parse(service).map(Self::Kubernetes),
            None | Some(("", _)) => Err(SourceError(format!("has no scheme; write {FORMS}"))),
            Some((scheme, _)) => Err(SourceError(format!("unknown scheme {scheme:?}; write {FORMS}"))),
        }
    }
}

fn parse_entry(entry: &str) -> Result<NodeEntry, SourceError> {
    let wrong = |what: fmt::Arguments<'_>| SourceError(format!("entry {entry:?}{what}"));
    let (id, place) =
        entry.split_once('=').ok_or_else(|| wrong(format_args!(" has no node id; write ID=HOST:PORT[@ZONE]")))?;
    let (address, zone) = place.split_once('@').map_or((place, None), |(address, zone)| (address, Some(zone)));
    let zone = zone.map(Zone::new).transpose();
    Ok(NodeEntry {
        id: NodeId::new(id).map_err(|reason| wrong(format_args!(": the node id {reason}")))?,
        address: address.parse().map_err(|reason: AddressError| wrong(format_args!(": the address {reason}")))?,
        draining: false,
        zone: zone.map_err(|reason: ZoneError| wrong(format_args!(": {reason}")))?,
    })
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static(view) => {
                let zone =
                    |member: &NodeEntry| member.zone.as_ref().map_or_else(String::new, |zone| format!("@{zone}"));
                let entry = |member: &NodeEntry| format!("{}={}{}", member.id, member.address, zone(member));
                let entries = view.members().iter().map(entry);
                write!(f, "static:{}", entries.collect::<Vec<_>>().join(","))
            }
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Dns(query) => write!(f, "dns:{query}"),
            Self::Kubernetes(ServicePort { namespace, service, port }) => {
                write!(f, "kubernetes:{namespace}/{service}:{port}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_list_becomes_a_view() {
        let text = "static:node-0=127.0.0.1:7900,a:b=[::1]:1@west@2";
        let Source::Static(view) = text.parse().unwrap() else { panic!("not static") };
        assert_eq!(view.len(), 2);
        assert_eq!(view.get("a:b").unwrap().address.as_str(), "[::1]:1");
        assert!(!view.get("node-0").unwrap().draining);
        let zone = |id| view.get(id).unwrap().zone.as_ref().map(Zone::as_str);
        assert_eq!((zone("node-0"), zone("a:b")), (None, Some("west@2")));
    }

    #[test]
    fn source_prints_as_it_is_written() {
        for text in [
            "static:a=h:1,b=h:2@west",
            "file:/a/b:c.json",
            "dns:nodes:7900",
            "dns:nodes.mesh.example.com.:1",
            "dns:_signaling._tcp.nodes",
            "kubernetes:calls/signaling-nodes:internal",
        ] {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn each_error_names_what_is_wrong() {
        for (text, part) in [
            ("", "has no scheme"),
            ("nodes.json", "has no scheme"),
            (":x", "has no scheme"),
            ("consul:nodes", "unknown scheme \"consul\""),
            ("dns:", "dns: has no valid name"),
            ("dns:10.0.0.1:7900", "dns: has no valid name"),
            ("dns:::1:7900", "dns: has no valid name"),
            ("dns:a b:7900", "dns: has no valid name"),
            (&format!("dns:{}:1", "a".repeat(254)), "dns: has no valid name"),
            ("dns:nodes", "dns: has no port"),
            ("dns:nodes:0", "dns: has no valid port"),
            ("dns:nodes:+1", "dns: has no valid port"),
            ("dns:nodes:65536", "dns: has no valid port"),
            ("dns:_signaling._tcp.nodes:7900", "dns: has a port, but SRV records have their own"),
            ("kubernetes:nodes:internal", "write kubernetes:NAMESPACE/SERVICE:PORTNAME"),
            ("kubernetes:calls/nodes", "write kubernetes:NAMESPACE/SERVICE:PORTNAME"),
            ("kubernetes:/nodes:internal", "the namespace \"\""),
            ("kubernetes:Calls/nodes:internal", "the namespace \"Calls\""),
            ("kubernetes:calls/-nodes:internal", "the service \"-nodes\""),
            (&format!("kubernetes:calls/nodes:{}", "x".repeat(64)), "the port \"xxx"),
            ("file:", "write file:PATH"),
            ("static:", "has no node"),
            ("static:127.0.0.1:1", "\"127.0.0.1:1\" has no node id"),
            ("static:a=h:1,", "entry \"\" has no node id"),
            ("static:a b=h:1", "entry \"a b=h:1\": the node id may have only"),
            ("static:a=h", "entry \"a=h\": the address has no port"),
            ("static:a=h:1@", "entry \"a=h:1@\": the zone must not be empty"),
            ("static:a=h:1@b c", "the zone may have only"),
            ("static:a=h:1,a=h:2", "node id a appears twice"),
        ] {
            let message = text.parse::<Source>().unwrap_err().to_string();
            assert!(message.contains(part), "{text:?}: {message:?}");
        }
    }
}
