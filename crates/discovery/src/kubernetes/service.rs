//! Text form of the service to follow, for [`Source`](crate::Source).

use crate::SourceError;

/// Maximum length of the name of a namespace, a service or a port (RFC 1123 label).
const MAX_LABEL: usize = 63;

/// A headless service and its port for the nodes' internal listeners: `NAMESPACE/SERVICE:PORTNAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// Namespace of the service.
    pub namespace: String,
    /// Name of the service.
    pub service: String,
    /// Name of the port in the service's `ports`.
    pub port: String,
}

const INCOMPLETE: &str = "kubernetes: is incomplete; write kubernetes:NAMESPACE/SERVICE:PORTNAME";

impl ServicePort {
    pub(crate) fn parse(text: &str) -> Result<Self, SourceError> {
        let (namespace, rest) = text.split_once('/').ok_or(INCOMPLETE)?;
        let (service, port) = rest.split_once(':').ok_or(INCOMPLETE)?;
        for (part, name) in [("the namespace", namespace), ("the service", service), ("the port", port)] {
            if !is_label(name) {
                let rule = "write 1 to 63 of a-z 0-9 -, and no - first or last";
                return Err(SourceError(format!("kubernetes: {part} {name:?} is invalid; {rule}")));
            }
        }
        Ok(Self { namespace: namespace.into(), service: service.into(), port: port.into() })
    }
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    (1..=MAX_LABEL).contains(&bytes.len())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}
