//! Accepted tokens, and the reasons of refused ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mint;

use std::time::{Duration, Instant};

use mint::{AUDIENCE, ISSUER, Signer, claims, claims_with, now, unsigned};
use serde_json::{Value, json};
use signaling_core::rate_class::RateClass;
use signaling_edge::identity::{KeyError, TokenRefusal, TokenRules, Tokens};
use signaling_wire::grant::{Grant, SignalScope};

fn rules(algorithm: &str) -> TokenRules {
    TokenRules {
        algorithm: algorithm.parse().unwrap(),
        audience: AUDIENCE.into(),
        issuer: ISSUER.into(),
        leeway: Duration::from_secs(10),
        new_rooms: [(RateClass::new("bots").unwrap(), 20)].into(),
    }
}

fn tokens(signer: &Signer) -> Tokens {
    Tokens::new(&rules(signer.algorithm), &signer.key_file).unwrap()
}

fn signers() -> [Signer; 4] {
    [Signer::hs256(), Signer::eddsa(), Signer::es256(), Signer::rs256()]
}

/// Verifies a token of Alice. Its header has the `kid`, if given.
fn verify(tokens: &Tokens, signer: &Signer, kid: Option<&str>) -> Result<(), TokenRefusal> {
    let mut header = json!({ "alg": signer.algorithm });
    if let Some(kid) = kid {
        header["kid"] = json!(kid);
    }
    tokens.verify(Some("alice"), Some(&signer.token_headed(&header, &claims("alice")))).map(|_| ())
}

/// Returns the signer's key for a set, with the `kid` `name`.
fn named(name: &str, signer: &Signer) -> Value {
    let mut key = signer.jwk.clone();
    key["kid"] = json!(name);
    key
}

fn set(keys: &[Value]) -> Vec<u8> {
    json!({ "keys": keys }).to_string().into_bytes()
}

#[test]
fn valid_token_proves_its_client_and_rights() {
    for signer in signers() {
        let more = json!({ "rooms": ["team-*"], "signal": "room", "rate_class": "bots", "aud": ["other", AUDIENCE] });
        let claims = claims_with("alice", &more);
        let proven = tokens(&signer).verify(Some("alice"), Some(&signer.token(&claims))).unwrap();
        let grant = Grant::read(&proven.grant).unwrap();
        assert_eq!(grant.signal, Some(SignalScope::Room));
        assert_eq!((grant.admits("team-1"), grant.admits("x")), (Some(None), None));
        assert_eq!(proven.rate_class, Some(RateClass::new("bots").unwrap()));
        assert_eq!((grant.subject.as_deref(), grant.new_rooms), (Some("alice"), Some(20)));
        let left = proven.expires.unwrap().saturating_duration_since(Instant::now()).as_secs();
        assert!((68..=70).contains(&left), "the minute and the leeway: {left}");
    }
}

#[test]
fn defect_of_a_token_is_found_for_each_algorithm() {
    for signer in signers() {
        let tokens = tokens(&signer);
        let refused = |token: &str| tokens.verify(Some("alice"), Some(token)).expect_err(token);
        let with = |others| signer.token(&claims_with("alice", &others));
        let good = signer.token(&claims("alice"));
        assert!(tokens.verify(Some("alice"), Some(&good)).is_ok());

        assert_eq!(tokens.verify(Some("alice"), None), Err(TokenRefusal::Missing));
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
            ("crit", signer.token_headed(&json!({ "alg": signer.algorithm, "crit": ["b64"] }), &claims("alice"))),
        ] {
            assert_eq!(refused(&token), TokenRefusal::Malformed, "{what}, {}", signer.algorithm);
        }
        assert_eq!(refused(&with(json!({ "exp": now() - 11 }))), TokenRefusal::Expired);
        assert_eq!(refused(&with(json!({ "nbf": now() + 15 }))), TokenRefusal::NotYet);
        assert_eq!(refused(&with(json!({ "aud": "another" }))), TokenRefusal::Audience);
        assert_eq!(refused(&with(json!({ "iss": "https://evil.example" }))), TokenRefusal::Issuer);
        assert_eq!(refused(&signer.token(&claims("bob"))), TokenRefusal::Subject);
        assert_eq!(refused(&with(json!({ "sub": "Alice" }))), TokenRefusal::Subject);
        assert!(matches!(refused(&with(json!({ "rooms": 7 }))), TokenRefusal::Claim(_)));

        for within in [json!({ "exp": now() - 8 }), json!({ "nbf": now() + 8 })] {
            assert!(tokens.verify(Some("alice"), Some(&with(within))).is_ok(), "the leeway");
        }
        let (front, signature) = good.rsplit_once('.').unwrap();
        let other = signer.token(&claims("bob"));
        assert_eq!(refused(&format!("{front}.{}", other.rsplit_once('.').unwrap().1)), TokenRefusal::Signature);
        assert_eq!(refused(&format!("{}.{signature}", other.rsplit_once('.').unwrap().0)), TokenRefusal::Signature);
        assert_eq!(refused(&format!("{front}.")), TokenRefusal::Signature);
    }
}

#[test]
fn algorithm_in_the_token_decides_nothing() {
    for signer in signers() {
        let tokens = tokens(&signer);
        let refused = |token: &str| tokens.verify(Some("alice"), Some(token)).expect_err(token);
        for name in ["none", "None", "NONE", "HS384", ""] {
            assert_eq!(refused(&unsigned(name, &claims("alice"))), TokenRefusal::Algorithm, "{name}");
        }
        assert_eq!(refused(&unsigned(signer.algorithm, &claims("alice"))), TokenRefusal::Signature);
        for other in signers().into_iter().filter(|other| other.algorithm != signer.algorithm) {
            assert_eq!(refused(&other.token(&claims("alice"))), TokenRefusal::Algorithm);
            // The header has the expected algorithm, the key is of another kind.
            let headed = json!({ "alg": signer.algorithm });
            assert_eq!(refused(&other.token_headed(&headed, &claims("alice"))), TokenRefusal::Signature);
        }
        // The public key as a secret.
        let forger = Signer::secret(&signer.key_file);
        if signer.algorithm != "HS256" {
            assert_eq!(refused(&forger.token(&claims("alice"))), TokenRefusal::Algorithm);
            let headed = json!({ "alg": signer.algorithm });
            assert_eq!(refused(&forger.token_headed(&headed, &claims("alice"))), TokenRefusal::Signature);
        }
        // A header with a key or the address of one.
        let more = json!({ "alg": signer.algorithm, "jku": "http://127.0.0.1:1/keys", "x5u": "http://127.0.0.1:1/",
                           "jwk": { "kty": "oct", "k": "AAAA" } });
        assert_eq!(refused(&Signer::hs256().stranger().token_headed(&more, &claims("alice"))), TokenRefusal::Signature);
    }
}

#[test]
fn key_in_each_file_form_verifies_only_its_tokens() {
    for signer in signers() {
        let (algorithm, stranger) = (signer.algorithm, signer.stranger());
        // `by_names`: `true` if the file may have the keys "one" and "two".
        for (what, file, by_names) in [
            ("the key alone", signer.key_file.clone(), [true, true]),
            ("a set for all algorithms", set(&signers().map(|signer| signer.jwk)), [true, true]),
            ("a set with a name", set(&[named("one", &signer)]), [true, false]),
        ] {
            let tokens = Tokens::new(&rules(algorithm), &file).unwrap();
            for (kid, known) in [(None, true), (Some("one"), by_names[0]), (Some("two"), by_names[1])] {
                let (good, bad) =
                    if known { (Ok(()), TokenRefusal::Signature) } else { (Err(TokenRefusal::Key), TokenRefusal::Key) };
                assert_eq!(verify(&tokens, &signer, kid), good, "{algorithm}, {what}, {kid:?}");
                assert_eq!(verify(&tokens, &stranger, kid), Err(bad), "{algorithm}, {what}, {kid:?}");
            }
        }
    }
}

#[test]
fn incomplete_key_of_a_set_is_ignored() {
    for (signer, parts) in signers().into_iter().zip([&["k"][..], &["x"], &["x", "y"], &["n", "e"]]) {
        let algorithm = signer.algorithm;
        for part in parts {
            let mut key = signer.jwk.clone();
            key.as_object_mut().unwrap().remove(*part);
            assert!(Tokens::new(&rules(algorithm), &set(&[key])).is_err(), "{algorithm} without {part}");
        }
        // 30 bytes, too few for each part.
        let mut key = signer.jwk.clone();
        let short = key[parts[0]].as_str().unwrap()[..40].to_owned();
        key[parts[0]] = json!(short);
        let error = Tokens::new(&rules(algorithm), &set(&[key])).err();
        assert_eq!(error, Some(KeyError::NoneFits(rules(algorithm).algorithm)), "{algorithm}: short {}", parts[0]);
    }
}

#[test]
fn key_is_selected_by_its_id() {
    for first in signers() {
        let (algorithm, second) = (first.algorithm, first.stranger());
        let tokens = Tokens::new(&rules(algorithm), &set(&[named("one", &first), named("two", &second)])).unwrap();
        for (signer, kid, result) in [
            (&first, None, Ok(())),
            (&second, None, Ok(())),
            (&first, Some("one"), Ok(())),
            (&second, Some("one"), Err(TokenRefusal::Signature)),
            (&second, Some("../two"), Err(TokenRefusal::Key)),
        ] {
            assert_eq!(verify(&tokens, signer, kid), result, "{algorithm}, {kid:?}");
        }
        tokens.change_keys(&set(&[named("two", &second)])).unwrap();
        assert_eq!(verify(&tokens, &first, Some("one")), Err(TokenRefusal::Key), "{algorithm}");
        assert_eq!(verify(&tokens, &second, None), Ok(()), "{algorithm}");
        assert!(tokens.change_keys(b"{}").is_err());
        assert_eq!(verify(&tokens, &second, None), Ok(()), "an invalid set changes nothing");
    }
}

#[test]
fn token_without_an_issue_time_counts_as_oldest() {
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
        assert_eq!(tokens.verify(Some("alice"), Some(&token)).unwrap().issued, issued, "{iat}");
    }
}

#[test]
fn token_with_a_damaged_byte_is_refused() {
    for signer in signers() {
        let (tokens, good) = (tokens(&signer), signer.token(&claims("alice")));
        for at in 0..good.len() {
            let mut damaged = good.clone().into_bytes();
            damaged[at] ^= 1;
            let damaged = String::from_utf8(damaged).unwrap();
            assert!(tokens.verify(Some("alice"), Some(&damaged)).is_err(), "{damaged}");
        }
    }
}
