//! The query that `connect` parses: `client_id=ID[&token=JWT][&resume=TOKEN][&reliable=1]`.

use http::StatusCode;
use signaling_core::edge::Refusal;
use signaling_protocol::ids::is_reserved;
use signaling_protocol::{ClientId, limits};

use crate::connect::refused;

/// The parsed query of a connect request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) client_id: ClientId,
    /// The identity token, decoded; `None` if absent.
    pub(super) token: Option<String>,
    /// The token of a session to resume, decoded; `None` if absent.
    pub(super) resume: Option<String>,
    /// `true` if the client confirms messages.
    pub(super) reliable: bool,
    /// The raw query without the tokens. Other parameters are for proxies in front.
    pub(super) rest: String,
}

impl Query {
    /// Parses the text after `?`. Fails with 400 if it has over 8,704 bytes or no `client_id`, or
    /// if a parameter is invalid or repeated; with 403 for a `client_id` that begins with `~`.
    pub(super) fn parse(query: &str) -> Result<Self, Refusal> {
        if query.len() > limits::MAX_QUERY_BYTES {
            return Err(bad_query(&format!("the query has more than {} bytes", limits::MAX_QUERY_BYTES)));
        }
        let (mut client_id, mut token, mut resume, mut reliable) = (None, None, None, None);
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let field = match name {
                "client_id" => &mut client_id,
                "token" => &mut token,
                "resume" => &mut resume,
                "reliable" => &mut reliable,
                _ => {
                    rest.push(pair);
                    continue;
                }
            };
            if name != "token" && name != "resume" {
                rest.push(pair);
            }
            if field.replace(decode(name, value)?).is_some() {
                return Err(bad_query(&format!("`{name}` is in the query twice")));
            }
        }
        let bad_client_id = |message: &str| refused(StatusCode::BAD_REQUEST, "bad_client_id", message, None);
        let client_id = client_id.ok_or_else(|| bad_client_id("the query needs client_id=ID"))?;
        let client_id = ClientId::new(&client_id).map_err(|error| bad_client_id(&format!("client_id {error}")))?;
        if is_reserved(client_id.as_str()) {
            return Err(refused(StatusCode::FORBIDDEN, "reserved_name", "client_id must not begin with `~`", None));
        }
        let reliable = match reliable.as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(_) => return Err(bad_query("`reliable` must be 0 or 1")),
        };
        Ok(Self { client_id, token, resume, reliable, rest: rest.join("&") })
    }
}

fn bad_query(message: &str) -> Refusal {
    refused(StatusCode::BAD_REQUEST, "bad_query", message, None)
}

/// Percent-decoding (RFC 3986 section 2.1).
fn decode(name: &str, value: &str) -> Result<String, Refusal> {
    let bad = || bad_query(&format!("`{name}` is not percent-encoded UTF-8"));
    let mut bytes = value.bytes();
    let mut decoded = Vec::with_capacity(value.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' {
            let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
            let (high, low) = (digit().ok_or_else(bad)?, digit().ok_or_else(bad)?);
            u8::try_from(high * 16 + low).map_err(|_| bad())?
        } else {
            byte
        });
    }
    String::from_utf8(decoded).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_without_tokens_is_kept_for_logs() {
        let query = Query::parse("client_id=al%69ce%40home&token=a.b-c&node=n1&resume=xyz&reliable=1").unwrap();
        assert_eq!(query.client_id.as_str(), "alice@home");
        assert_eq!((query.token.as_deref(), query.resume.as_deref()), (Some("a.b-c"), Some("xyz")));
        assert!(query.reliable);
        assert_eq!(query.rest, "client_id=al%69ce%40home&node=n1&reliable=1");
    }

    #[test]
    fn reserved_client_id_is_forbidden() {
        for query in ["client_id=~pj:k:a", "client_id=%7Ea"] {
            let refusal = Query::parse(query).unwrap_err();
            assert_eq!((refusal.status, refusal.code.as_str()), (403, "reserved_name"), "{query}");
        }
        assert!(Query::parse("client_id=a~").is_ok());
    }

    proptest::proptest! {
        #[test]
        fn rest_of_any_query_has_no_token(query in "client_id=(a|%[0-9a-f]{2}){0,3}(&(token|resume|reliable|x)=[a-z0-9=%]{0,3}){0,4}") {
            if let Ok(parsed) = Query::parse(&query) {
                assert!(parsed.rest.split('&').all(|pair| !pair.starts_with("token=") && !pair.starts_with("resume=")));
            }
        }
    }
}
