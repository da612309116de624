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
/// Path of the socket below the mount.
const SOCKET: &str = "/peerjs";

/// Returns the answer to a request below the mount.
pub(crate) fn request(settings: &Settings, head: &Head<'_>, random: &[u8; 32]) -> Answer {
    if head.upgrade {
        return match head.path {
            SOCKET => handshake(settings, head, random),
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
        ("GET", [key, "id"]) if !key.is_empty() => {
            HttpAnswer::new(200, HTML, crate::name::random_uuid(random).to_string())
        }
        ("GET", [key, "peers"]) if !key.is_empty() => HttpAnswer::new(401, TEXT, "Unauthorized"),
        _ => HttpAnswer::new(404, TEXT, "Not Found"),
    }
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

    fn settings(tokens: bool) -> Settings {
        Settings { tokens, ..Settings::default() }
    }

    fn answer_to(head: &Head<'_>) -> Answer {
        request(&settings(false), head, &RANDOM)
    }

    fn get(path: &str) -> HttpAnswer {
        match answer_to(&Head { method: "GET", path, query: "ts=1", ..Head::default() }) {
            Answer::Http(answer) => answer,
            other => panic!("{other:?}"),
        }
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

    fn header<'a>(answer: &'a HttpAnswer, name: &str) -> Vec<&'a str> {
        answer.headers.iter().filter(|(key, _)| *key == name).map(|(_, value)| value.as_str()).collect()
    }

    #[test]
    fn root_describes_the_server() {
        for path in ["", "/"] {
            let answer = get(path);
            assert_eq!((answer.status, header(&answer, "content-type")), (200, vec![JSON]));
            assert_eq!(
                answer.body,
                "{\"name\":\"PeerJS Server\",\"description\":\"A server side element to broker connections between \
                 PeerJS clients.\",\"website\":\"https://peerjs.com/\"}"
            );
        }
    }

    #[test]
    fn id_is_a_fresh_uuid_for_any_key() {
        let answer = get("/any%20key/id");
        assert_eq!((answer.status, header(&answer, "content-type")), (200, vec![HTML]));
        assert_eq!(answer.body, "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn peers_are_not_listed() {
        let answer = get("/peerjs/peers");
        assert_eq!((answer.status, &*answer.body, header(&answer, "content-type")), (401, "Unauthorized", vec![TEXT]));
    }

    #[test]
    fn other_paths_and_methods_are_not_found() {
        for path in ["/x", "//id", "/a/b/id", "/peerjs/id/", "//", "/peerjs"] {
            assert_eq!(get(path).status, 404, "{path}");
        }
        let Answer::Http(post) = answer_to(&Head { method: "POST", path: "/", ..Head::default() }) else { panic!() };
        assert_eq!(post.status, 404);
    }

    #[test]
    fn upgrade_elsewhere_is_a_bad_request() {
        for path in ["", "/", "/peerjs/", "/peerjs/id", "/x"] {
            let answer = answer_to(&Head { method: "GET", path, upgrade: true, ..Head::default() });
            assert!(matches!(answer, Answer::Http(HttpAnswer { status: 400, .. })), "{path}");
        }
    }

    #[test]
    fn cross_origin_answers_repeat_the_origin() {
        let head = Head { method: "GET", path: "/peerjs/id", origin: Some("https://a.example"), ..Head::default() };
        let Answer::Http(answer) = answer_to(&head) else { panic!() };
        assert_eq!(header(&answer, "access-control-allow-origin"), ["https://a.example"]);
        assert_eq!(header(&answer, "vary"), ["Origin"]);
        assert!(header(&answer, "access-control-allow-credentials").is_empty());
    }

    #[test]
    fn preflight_allows_methods_and_asked_headers() {
        let head = Head {
            method: "OPTIONS",
            path: "/x",
            origin: Some("null"),
            asked_headers: Some("x-a,x-b"),
            ..Head::default()
        };
        let Answer::Http(answer) = answer_to(&head) else { panic!() };
        assert_eq!((answer.status, &*answer.body), (204, ""));
        assert_eq!(header(&answer, "access-control-allow-origin"), ["null"]);
        assert_eq!(header(&answer, "access-control-allow-methods"), [METHODS]);
        assert_eq!(header(&answer, "access-control-allow-headers"), ["x-a,x-b"]);
    }

    #[test]
    fn upgrade_is_rejected_without_id_token_or_key() {
        for query in ["", "key=peerjs&id=a", "key=peerjs&token=t", "id=a&token=t", "key=peerjs&id=&token=t"] {
            let Answer::Reject(rejection) = upgrade(&settings(false), query) else { panic!("{query}") };
            assert!(rejection.frame.contains("No id, token, or key supplied"), "{query}");
            assert_eq!(rejection.close.code, None);
        }
    }

    #[test]
    fn upgrade_is_rejected_with_another_key() {
        let query = "key=other&id=a&token=t";
        let Answer::Reject(rejection) = upgrade(&settings(false), query) else { panic!() };
        assert_eq!(rejection.frame, r#"{"type":"ERROR","payload":{"msg":"Invalid key provided"}}"#);
        let any = Settings { peerjs_keys: Keys::Any, ..settings(false) };
        assert_eq!(opening(&any, query).client_id.as_str(), "~pj:other:a");
    }

    #[test]
    fn opening_claims_the_id_with_the_token() {
        let one = opening(&settings(false), "key=peerjs&id=x&id=a%20b&token=t&version=1.5.5");
        assert_eq!(one.client_id.as_str(), "~pj:peerjs:a~20b");
        assert_eq!((one.lifetime, one.if_taken.is_some()), (Lifetime::EndsWithCloseFrame, true));
        assert_eq!((one.token.as_deref(), one.subject.as_deref()), (Some("t"), Some("a b")));
        let other = opening(&settings(false), "key=peerjs&id=a%20b&token=u");
        assert!(one.credential.is_some() && one.credential != other.credential);
    }

    #[test]
    fn renewed_jwt_has_the_same_credential() {
        let claim = |token| opening(&settings(true), &format!("key=peerjs&id=a&token={token}")).credential;
        assert_eq!(claim("one"), claim("two"));
        assert_ne!(claim("one"), opening(&settings(true), "key=peerjs&id=b&token=one").credential);
    }

    #[test]
    fn id_that_fits_no_message_is_a_bad_request() {
        let query = |id: &str| format!("key=peerjs&token=t&id={id}");
        assert!(matches!(upgrade(&settings(false), &query(&"a".repeat(510))), Answer::Upgrade(_)));
        for id in ["a".repeat(511), "%01".repeat(100)] {
            let answer = upgrade(&settings(false), &query(&id));
            assert!(matches!(answer, Answer::Http(HttpAnswer { status: 400, .. })));
        }
    }
}
