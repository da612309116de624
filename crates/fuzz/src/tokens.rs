//! Tokens (JWT), and the files of keys that verify them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::Value;
use signaling_edge::identity::{TokenAlgorithm, TokenRules, Tokens};
use signaling_protocol::ClientId;
use signaling_protocol::ids::MAX_NAME;
use signaling_wire::grant::{Grant, MAX_PATTERNS};

const SECRET: &[u8] = b"a secret of the fuzzer's own, of more than 32 bytes";
const AUDIENCE: &str = "the-mesh";
const ISSUER: &str = "https://app.example";
const LEEWAY: Duration = Duration::from_secs(10);
const ALGORITHMS: [TokenAlgorithm; 4] =
    [TokenAlgorithm::Hs256, TokenAlgorithm::EdDsa, TokenAlgorithm::Es256, TokenAlgorithm::Rs256];

/// The first line is a token's header and the second its claims, which are signed by whoever may; what follows is a file of keys.
pub fn tokens(data: &[u8]) {
    let (Ok(alice), Ok(tokens)) = (ClientId::new("alice"), Tokens::new(&rules(TokenAlgorithm::Hs256), SECRET)) else {
        return;
    };
    let refused = |token: &str| assert!(tokens.verify(&alice, Some(token)).is_err(), "{token}");
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let [header, claims, file] = [(); 3].map(|()| lines.next().unwrap_or_default());
    let front = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), front.as_bytes());
    let signed = |signature: &[u8]| format!("{front}.{}", URL_SAFE_NO_PAD.encode(signature));

    let token = signed(signature.as_ref());
    if let Ok(proven) = tokens.verify(&alice, Some(&token)) {
        check(header, claims);
        let grant = Grant::read(&proven.grant).unwrap_or_default();
        assert_eq!(grant.to_bytes(), *proven.grant, "it is read as it was written");
        let rooms = grant.rooms.unwrap_or_default();
        assert!(rooms.len() <= MAX_PATTERNS && rooms.iter().all(|room| (1..=MAX_NAME).contains(&room.pattern.len())));
        let mut forged = signature.as_ref().to_vec();
        forged[0] ^= 1;
        refused(&signed(&forged));
        refused(&signed(&[]));
        refused(&front);
        refused(&format!("{token}."));
    }
    // What nobody has signed, whatever it is.
    if let Ok(text) = std::str::from_utf8(data) {
        refused(text);
    }
    for algorithm in ALGORITHMS {
        if let Ok(tokens) = Tokens::new(&rules(algorithm), file) {
            assert!(tokens.change_keys(file).is_ok() && tokens.change_keys(b"").is_err());
            let verified = tokens.verify(&alice, Some(&token)).is_ok();
            assert!(!verified || algorithm == TokenAlgorithm::Hs256, "{algorithm:?} takes what HS256 has signed");
        }
    }
}

fn rules(algorithm: TokenAlgorithm) -> TokenRules {
    TokenRules { algorithm, audience: AUDIENCE.into(), issuer: ISSUER.into(), leeway: LEEWAY }
}

/// What was taken says what a token must.
fn check(header: &[u8], claims: &[u8]) {
    let [header, claims] = [header, claims].map(|part| serde_json::from_slice::<Value>(part).unwrap_or_default());
    assert_eq!(header["alg"], "HS256", "{header}");
    assert!(header["crit"].is_null(), "{header}");
    assert_eq!((&claims["sub"], &claims["iss"]), (&Value::from("alice"), &Value::from(ISSUER)), "{claims}");
    let is_for_us = |audience: &Value| *audience == AUDIENCE;
    let audience = &claims["aud"];
    assert!(
        is_for_us(audience) || audience.as_array().is_some_and(|several| several.iter().any(is_for_us)),
        "{claims}"
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let leeway = LEEWAY.as_secs_f64() + 1.0;
    assert!(claims["exp"].as_f64().is_some_and(|exp| exp + leeway >= now), "{claims}");
    assert!(claims["nbf"].as_f64().is_none_or(|nbf| nbf <= now + leeway), "{claims}");
}
