//! What tokens are taken, and what is wrong with those that are not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mint;

use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use mint::{AUDIENCE, ISSUER, Signer, claims, claims_with, now, unsigned};
use serde_json::json;
use signaling_edge::identity::{TokenAlgorithm, TokenRefusal, TokenRules, Tokens};
use signaling_protocol::ClientId;
use signaling_protocol::grant::{Grant, SignalScope};

fn rules(algorithm: &str) -> TokenRules {
    TokenRules {
        algorithm: TokenAlgorithm::from_str(algorithm, false).unwrap(),
        audience: AUDIENCE.into(),
        issuer: ISSUER.into(),
        leeway: Duration::from_secs(10),
    }
}

fn tokens(signer: &Signer) -> Tokens {
    Tokens::new(&rules(signer.algorithm()), &signer.key_file()).unwrap()
}

fn id(name: &str) -> ClientId {
    ClientId::new(name).unwrap()
}

fn signers() -> [Signer; 4] {
    [Signer::hs256(), Signer::eddsa(), Signer::es256(), Signer::rs256()]
}

#[test]
fn a_good_token_of_each_algorithm_proves_its_client_and_says_what_it_may_do() {
    for signer in signers() {
        let claims = claims_with(
            "alice",
            &json!({ "rooms": ["team-*"], "signal": "room", "rate_class": "bots", "aud": ["other", AUDIENCE] }),
        );
        let proven = tokens(&signer).verify(&id("alice"), Some(&signer.token(&claims))).unwrap();
        let grant = Grant::read(&proven.grant).unwrap();
        assert_eq!(
            (grant.signal, grant.admits("team-1"), grant.admits("x")),
            (Some(SignalScope::Room), Some(None), None)
        );
        assert_eq!(proven.rate_class.unwrap().as_str(), "bots");
        let left = proven.expires.unwrap().saturating_duration_since(Instant::now()).as_secs();
        assert!((68..=70).contains(&left), "the minute and the leeway: {left}");
    }
}

#[test]
fn what_is_wrong_with_a_token_is_found_whatever_signs_it() {
    for signer in signers() {
        let tokens = tokens(&signer);
        let refused = |token: &str| tokens.verify(&id("alice"), Some(token)).expect_err(token);
        let with = |others| signer.token(&claims_with("alice", &others));
        let good = signer.token(&claims("alice"));
        assert!(tokens.verify(&id("alice"), Some(&good)).is_ok());

        assert_eq!(tokens.verify(&id("alice"), None), Err(TokenRefusal::Missing));
        for (what, token) in [
            ("nothing", String::new()),
            ("no JWT", "a.b.c".into()),
            ("two parts", good.rsplit_once('.').unwrap().0.to_owned()),
            ("four parts", format!("{good}.x")),
            ("too long", with(json!({ "more": "x".repeat(4_096) }))),
            ("no exp", with(json!({ "exp": null }))),
            ("exp as text", with(json!({ "exp": "tomorrow" }))),
            ("no sub", with(json!({ "sub": null }))),
            ("no aud", with(json!({ "aud": null }))),
            ("no iss", with(json!({ "iss": null }))),
            ("crit", signer.token_headed(&json!({ "alg": signer.algorithm(), "crit": ["b64"] }), &claims("alice"))),
        ] {
            assert_eq!(refused(&token), TokenRefusal::Malformed, "{what}, {}", signer.algorithm());
        }
        assert_eq!(refused(&with(json!({ "exp": now() - 11 }))), TokenRefusal::Expired);
        assert_eq!(refused(&with(json!({ "nbf": now() + 15 }))), TokenRefusal::NotYet);
        assert_eq!(refused(&with(json!({ "aud": "another" }))), TokenRefusal::Audience);
        assert_eq!(refused(&with(json!({ "iss": "https://evil.example" }))), TokenRefusal::Issuer);
        assert_eq!(refused(&signer.token(&claims("bob"))), TokenRefusal::Subject);
        assert_eq!(refused(&with(json!({ "sub": "Alice" }))), TokenRefusal::Subject);
        assert!(matches!(refused(&with(json!({ "rooms": 7 }))), TokenRefusal::Claim(_)));

        for within in [json!({ "exp": now() - 8 }), json!({ "nbf": now() + 8 })] {
            assert!(tokens.verify(&id("alice"), Some(&with(within))).is_ok(), "the leeway");
        }
        let (front, signature) = good.rsplit_once('.').unwrap();
        let other = signer.token(&claims("bob"));
        assert_eq!(refused(&format!("{front}.{}", other.rsplit_once('.').unwrap().1)), TokenRefusal::Signature);
        assert_eq!(refused(&format!("{}.{signature}", other.rsplit_once('.').unwrap().0)), TokenRefusal::Signature);
        assert_eq!(refused(&format!("{front}.")), TokenRefusal::Signature);
    }
}

#[test]
fn what_a_token_says_of_its_own_algorithm_decides_nothing() {
    for signer in signers() {
        let tokens = tokens(&signer);
        let refused = |token: &str| tokens.verify(&id("alice"), Some(token)).expect_err(token);
        for name in ["none", "None", "NONE", "HS384", ""] {
            assert_eq!(refused(&unsigned(name, &claims("alice"))), TokenRefusal::Algorithm, "{name}");
        }
        assert_eq!(refused(&unsigned(signer.algorithm(), &claims("alice"))), TokenRefusal::Signature);
        for other in signers().into_iter().filter(|other| other.algorithm() != signer.algorithm()) {
            assert_eq!(refused(&other.token(&claims("alice"))), TokenRefusal::Algorithm);
            // Of another kind of key, but it says that it is of the right one.
            let headed = json!({ "alg": signer.algorithm() });
            assert_eq!(refused(&other.token_headed(&headed, &claims("alice"))), TokenRefusal::Signature);
        }
        // The public key, which everybody has, taken for a secret.
        let forger = Signer::Secret(signer.key_file());
        if signer.algorithm() != "HS256" {
            assert_eq!(refused(&forger.token(&claims("alice"))), TokenRefusal::Algorithm);
            let headed = json!({ "alg": signer.algorithm() });
            assert_eq!(refused(&forger.token_headed(&headed, &claims("alice"))), TokenRefusal::Signature);
        }
        // Keys that it brings along, or says where to find.
        let more = json!({ "alg": signer.algorithm(), "jku": "http://127.0.0.1:1/keys", "x5u": "http://127.0.0.1:1/",
                           "jwk": { "kty": "oct", "k": "AAAA" } });
        let another = Signer::Secret(b"another secret, also of 32 bytes or more".to_vec());
        assert_eq!(refused(&another.token_headed(&more, &claims("alice"))), TokenRefusal::Signature);
    }
}

#[test]
fn keys_are_found_by_name_and_two_can_be_in_use_at_once() {
    let secrets = ["the first secret, of 32 bytes and more", "the second secret, of 32 bytes and more"];
    let key = |id: &str, secret: &str| {
        use base64::Engine as _;
        let k = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(secret);
        json!({ "kty": "oct", "kid": id, "k": k })
    };
    let set = json!({ "keys": [key("one", secrets[0]), key("two", secrets[1])] }).to_string();
    let tokens = Tokens::new(&rules("HS256"), set.as_bytes()).unwrap();
    let token = |kid: Option<&str>, secret: &str| {
        let header = kid.map_or(json!({ "alg": "HS256" }), |kid| json!({ "alg": "HS256", "kid": kid }));
        Signer::Secret(secret.into()).token_headed(&header, &claims("alice"))
    };
    let verify = |token: &str| tokens.verify(&id("alice"), Some(token)).map(|_| ());
    for secret in secrets {
        assert_eq!(verify(&token(None, secret)), Ok(()));
    }
    assert_eq!(verify(&token(Some("one"), secrets[0])), Ok(()));
    assert_eq!(verify(&token(Some("one"), secrets[1])), Err(TokenRefusal::Signature));
    assert_eq!(verify(&token(Some("../two"), secrets[1])), Err(TokenRefusal::Key));

    let only_two = json!({ "keys": [key("two", secrets[1])] }).to_string();
    tokens.change_keys(only_two.as_bytes()).unwrap();
    assert_eq!(verify(&token(Some("one"), secrets[0])), Err(TokenRefusal::Key));
    assert_eq!(verify(&token(None, secrets[1])), Ok(()));
    assert!(tokens.change_keys(b"{}").is_err());
    assert_eq!(verify(&token(None, secrets[1])), Ok(()), "a set that makes no sense changes nothing");
}

#[test]
fn a_token_counts_as_old_as_it_says_or_as_very_old() {
    let signer = Signer::hs256();
    let tokens = tokens(&signer);
    for (iat, issued) in [
        (json!(1_000), 1_000),
        (json!(1_000.9), 1_000),
        (json!(null), 0),
        (json!(0), 0),
        (json!(-5.0), 0),
        (json!(1e300), u64::MAX),
    ] {
        let token = signer.token(&claims_with("alice", &json!({ "iat": iat })));
        assert_eq!(tokens.verify(&id("alice"), Some(&token)).unwrap().issued, issued, "{iat}");
    }
}
