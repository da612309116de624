//! HTTP requests of PeerJS clients: server information, fresh ids, and the upgrade.

use super::handshake::handshake;
use crate::Settings;
use crate::request::{Answer, Head, HttpAnswer};

const ABOUT: &str = concat!(
    r#"{"name":"PeerJS Server","#,
    r#""description":"A server side element to broker connections between PeerJS clients.","#,
    r#""website":"https://peerjs.com/"}"#
);
const JSON: &str = "application/json; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const METHODS: &str = "GET,HEAD,PUT,PATCH,POST,DELETE";
/// Path of the socket below the mount, for clients whose path is the mount.
const SOCKET: &str = "/peerjs";
/// The same for clients with the path `/`, their default: `/peerjs` is the mount itself.
const SOCKET_BELOW_ROOT: &str = "";

/// Returns the answer to a request below the mount. Unknown upgrades get 400, unknown requests 404.
pub(crate) fn request(settings: &Settings, head: &Head<'_>, random: &[u8; 32]) -> Answer {
    if head.upgrade {
        return match head.path {
            SOCKET | SOCKET_BELOW_ROOT => handshake(settings, head, random),
            _ => Answer::Http(HttpAnswer::new(400, TEXT, "Bad Request")),
        };
    }
    if head.method == "OPTIONS" {
        return Answer::Http(preflight(head));
    }
    Answer::Http(with_cors(head, plain(head, random)))
}

fn plain(head: &Head<'_>, random: &[u8; 32]) -> HttpAnswer {
    let segments: Vec<&str> = head.path.split('/').skip(1).collect();
    match (head.method, &*segments) {
        ("GET", [] | [""]) => HttpAnswer::new(200, JSON, ABOUT),
        ("GET", [key @ .., "id"]) if is_key(key) => {
            HttpAnswer::new(200, HTML, crate::name::random_uuid(random).to_string())
        }
        ("GET", [key @ .., "peers"]) if is_key(key) => HttpAnswer::new(401, TEXT, "Unauthorized"),
        _ => HttpAnswer::new(404, TEXT, "Not Found"),
    }
}

/// Returns `true` for one segment, or none: the mount is the key of clients with the path `/`.
fn is_key(segments: &[&str]) -> bool {
    matches!(segments, [] | [_]) && segments != [""]
}

fn with_cors(head: &Head<'_>, mut answer: HttpAnswer) -> HttpAnswer {
    if let Some(origin) = head.origin {
        answer.headers.push(("access-control-allow-origin", origin.to_owned()));
    }
    answer.headers.push(("vary", "Origin".to_owned()));
    answer
}

fn preflight(head: &Head<'_>) -> HttpAnswer {
    let mut answer = with_cors(head, HttpAnswer { status: 204, headers: Vec::new(), body: String::new() });
    answer.headers.push(("access-control-allow-methods", METHODS.to_owned()));
    if let Some(asked) = head.asked_headers {
        answer.headers.push(("vary", "Access-Control-Request-Headers".to_owned()));
        answer.headers.push(("access-control-allow-headers", asked.to_owned()));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::super::Keys;
    use super::*;
    use crate::request::{Lifetime, Opening};

    const RANDOM: [u8; 32] = [0xff; 32];

    /// Returns the status, and headers and body without line ends.
    fn answer(head: &Head<'_>) -> (u16, String) {
        let Answer::Http(HttpAnswer { status, headers, body }) = request(&Settings::default(), head, &RANDOM) else {
            panic!("{head:?}")
        };
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}, ")).collect();
        (status, headers + &body)
    }

    fn upgrade(settings: &Settings, query: &str) -> Answer {
        request(settings, &Head { method: "GET", path: SOCKET, query, upgrade: true, ..Head::default() }, &RANDOM)
    }

    fn opening(settings: &Settings, query: &str) -> Opening {
        match upgrade(settings, query) {
            Answer::Upgrade(opening) => *opening,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn plain_requests_have_upstreams_answers() {
        let about = (200, format!("content-type: {JSON}, vary: Origin, {ABOUT}"));
        let id = format!("content-type: {HTML}, vary: Origin, ffffffff-ffff-4fff-bfff-ffffffffffff");
        let peers = format!("content-type: {TEXT}, vary: Origin, Unauthorized");
        let get = |path| Head { method: "GET", path, query: "ts=1", ..Head::default() };
        assert_eq!((answer(&get("")), answer(&get("/"))), (about.clone(), about));
        assert_eq!(answer(&get("/any%20key/id")), (200, id));
        assert_eq!(answer(&get("/peerjs/peers")), (401, peers));
        for path in ["/x", "//id", "/a/b/id", "/peerjs/id/", "//", "/peerjs", "/id/"] {
            assert_eq!(answer(&get(path)).0, 404, "{path}");
        }
        assert_eq!(answer(&Head { method: "POST", ..get("/") }).0, 404);
        for path in ["/", "/peerjs/", "/peerjs/id", "/x"] {
            assert_eq!(answer(&Head { upgrade: true, ..get(path) }).0, 400, "{path}");
        }
    }

    #[test]
    fn client_with_the_path_of_the_root_is_served() {
        let get = |path| Head { method: "GET", path, query: "key=peerjs&id=a&token=t", ..Head::default() };
        assert_eq!((answer(&get("/id")).0, answer(&get("/peers")).0), (200, 401));
        let socket = Head { upgrade: true, ..get("") };
        assert!(matches!(request(&Settings::default(), &socket, &RANDOM), Answer::Upgrade(_)));
    }

    #[test]
    fn cross_origin_answers_repeat_origin_and_headers() {
        let get = Head { method: "GET", path: "/a/peers", origin: Some("https://a.example"), ..Head::default() };
        let allowed = "access-control-allow-origin: https://a.example, vary: Origin, ";
        assert_eq!(answer(&get), (401, format!("content-type: {TEXT}, {allowed}Unauthorized")));
        let preflight = Head { method: "OPTIONS", asked_headers: Some("x-a,x-b"), ..get };
        let asked = "vary: Access-Control-Request-Headers, access-control-allow-headers: x-a,x-b, ";
        assert_eq!(answer(&preflight), (204, format!("{allowed}access-control-allow-methods: {METHODS}, {asked}")));
    }

    #[test]
    fn upgrade_is_rejected_without_id_token_or_key() {
        for query in ["", "key=peerjs&id=a", "key=peerjs&token=t", "id=a&token=t", "key=peerjs&id=&token=t"] {
            let Answer::Reject(rejection) = upgrade(&Settings::default(), query) else { panic!("{query}") };
            assert!(rejection.frame.contains("No id, token, or key supplied"), "{query}");
        }
    }

    #[test]
    fn opening_claims_the_id_with_the_token() {
        let any = Settings { peerjs_keys: Keys::Any, ..Settings::default() };
        let one = opening(&any, "key=other&id=x&id=a%20b&token=t&version=1.5.5");
        assert_eq!(one.client_id.as_str(), "~pj:other:a~20b");
        assert_eq!((one.lifetime, one.if_taken.is_some()), (Lifetime::EndsWithCloseFrame, true));
        assert_eq!((one.token.as_deref(), one.subject.as_deref()), (Some("t"), Some("a b")));
        let other = opening(&any, "key=other&id=a%20b&token=u");
        assert!(one.credential.is_some() && one.credential != other.credential);
    }

    #[test]
    fn renewed_jwt_has_the_same_credential() {
        let settings = Settings { tokens: true, ..Settings::default() };
        let claim = |id, token| opening(&settings, &format!("key=peerjs&id={id}&token={token}")).credential;
        assert_eq!(claim("a", "one"), claim("a", "two"));
        assert_ne!(claim("a", "one"), claim("b", "one"));
    }

    #[test]
    fn id_that_fits_no_message_is_a_bad_request() {
        let query = |id: &str| format!("key=peerjs&token=t&id={id}");
        for id in ["a".repeat(512), "%01".repeat(85)] {
            assert!(matches!(upgrade(&Settings::default(), &query(&id)), Answer::Upgrade(_)), "{id}");
        }
        for id in ["a".repeat(513), "%01".repeat(86)] {
            let answer = upgrade(&Settings::default(), &query(&id));
            assert!(matches!(answer, Answer::Http(HttpAnswer { status: 400, .. })));
        }
    }
}
