//! Tests of the upgrade check and of the offers that it reads.

use super::*;

/// RFC 6455 section 1.3, key and answer.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const KEY_ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

#[test]
fn example_of_the_rfc_is_accepted() {
    let accept = checked(&upgrade()).unwrap();
    assert_eq!(accept.key_accept, KEY_ACCEPT);
    assert!(!accept.signaling_v1);
    assert_eq!((accept.bearer, accept.resume), (None, None));
}

#[test]
fn header_lists_are_read_in_any_case_and_over_lines() {
    let mut headers = upgrade();
    headers.insert("connection", HeaderValue::from_static("keep-alive, UPGRADE"));
    headers.insert("upgrade", HeaderValue::from_static("h2c"));
    headers.append("upgrade", HeaderValue::from_static("WebSocket"));
    assert!(checked(&headers).is_ok());
}

#[test]
fn request_that_breaks_a_rule_is_refused() {
    // The value replaces that of a valid request. `None` removes the header.
    for (name, value, status) in [
        ("sec-websocket-version", Some("8"), 426),
        ("sec-websocket-version", Some("13, 8"), 426),
        ("upgrade", Some("h2c"), 426),
        ("connection", None, 426),
        ("connection", Some("close"), 426),
        ("sec-websocket-key", None, 400),
        ("sec-websocket-key", Some("dGhlIHNhbXBsZSBub25jZQ"), 400),
        ("sec-websocket-key", Some("!!!!IHNhbXBsZSBub25jZQ=="), 400),
        ("host", Some(""), 400),
        ("content-length", Some("5"), 400),
        ("transfer-encoding", Some("chunked"), 400),
        ("sec-websocket-protocol", Some("bearer."), 400),
        ("sec-websocket-protocol", Some("bearer.a, bearer.a"), 400),
        ("sec-websocket-protocol", Some("resume.a, signaling.v1, resume.b"), 400),
    ] {
        assert_eq!(checked(&with(name, value)).unwrap_err().status, status, "{name}: {value:?}");
    }
    for (name, value) in [("sec-websocket-key", KEY), ("host", "mesh.example"), ("host", "b.example")] {
        let mut doubled = upgrade();
        doubled.append(name, HeaderValue::from_static(value));
        assert_eq!(checked(&doubled).unwrap_err().status, StatusCode::BAD_REQUEST, "{name}");
    }
}

#[test]
fn content_length_of_zero_is_no_body() {
    assert!(checked(&with("content-length", Some("0"))).is_ok());
    for length in ["00", "+0", "", "0, 5"] {
        let refused = checked(&with("content-length", Some(length))).unwrap_err();
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{length}");
    }
}

#[test]
fn head_has_the_answer_of_get_without_an_upgrade() {
    let status = |method, headers: &HeaderMap| check(&method, Version::HTTP_11, headers).unwrap_err().status;
    let plain = with("upgrade", None);
    assert_eq!(status(Method::HEAD, &plain), status(Method::GET, &plain));
    assert_eq!(
        (status(Method::HEAD, &upgrade()), status(Method::POST, &plain)),
        (405.try_into().unwrap(), 405.try_into().unwrap())
    );
}

#[test]
fn first_offer_is_selected_for_dialects_unless_it_is_a_token() {
    for (offers, selected) in [
        ("chat", Some("chat")),
        ("bearer.a, , resume.b, mqtt, chat", Some("mqtt")),
        ("chat, signaling.v1", Some("chat")),
        ("bearer.a", None),
        ("", None),
    ] {
        let accept = checked(&with("sec-websocket-protocol", Some(offers))).unwrap();
        let selected = selected.map(HeaderValue::from_static);
        assert_eq!(accept.dialect_response().headers().get("sec-websocket-protocol"), selected.as_ref(), "{offers}");
    }
}

#[test]
fn subprotocol_offers_are_read_from_all_lines() {
    let mut headers = with("sec-websocket-protocol", Some("graphql-ws,signaling.v1 ,  bearer.a.b-c_d"));
    headers.append("sec-websocket-protocol", HeaderValue::from_static("resume.r1"));
    let accept = checked(&headers).unwrap();
    assert!(accept.signaling_v1);
    assert_eq!(accept.bearer, Some(PresentedToken("a.b-c_d".into())));
    assert_eq!(accept.resume, Some(PresentedToken("r1".into())));
}

#[test]
fn unknown_subprotocols_are_ignored() {
    let accept = checked(&with("sec-websocket-protocol", Some("chat, signaling.v2, Signaling.v1"))).unwrap();
    assert!(!accept.signaling_v1);
}

#[test]
fn tokens_are_masked_in_debug_output() {
    let accept = checked(&with("sec-websocket-protocol", Some("bearer.secret1, resume.secret2"))).unwrap();
    assert!(!format!("{accept:?}").contains("secret"));
}

fn checked(headers: &HeaderMap) -> Result<Accept, Refused> {
    check(&Method::GET, Version::HTTP_11, headers)
}

fn upgrade() -> HeaderMap {
    [
        ("host", "mesh.example"),
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", KEY),
    ]
    .into_iter()
    .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
    .collect()
}

/// A valid upgrade request, except that header `name` has `value` or is missing.
fn with(name: &'static str, value: Option<&'static str>) -> HeaderMap {
    let mut headers = upgrade();
    match value {
        Some(value) => headers.insert(name, HeaderValue::from_static(value)),
        None => headers.remove(name),
    };
    headers
}
