//! HTTP requests of matchbox clients: the upgrade to a room, and the health check.

use super::Matchbox;
use super::names::Rooms;
use crate::request::{Answer, Head, HttpAnswer, Opening};
use crate::{Dialect, name, query};

/// Returns the answer to a request below the mount, whose path is one segment with the room, or
/// none. A plain `GET` has 200 for `/health`, else 400. Others have 404.
pub(crate) fn request(head: &Head<'_>, random: &[u8; 32]) -> Answer {
    let segment = head.path.strip_prefix('/').unwrap_or(head.path);
    if head.method != "GET" || segment.contains('/') {
        return Answer::NotFound;
    }
    if segment == "health" {
        return empty(200);
    }
    let path = String::from_utf8(query::unescape(segment, b'%')).ok().filter(|_| head.upgrade);
    let Some(path) = path else { return empty(400) };
    // Without a number, and with 0, groups have no limit: all clients are in one.
    let size = query::field(head.query, "next").and_then(|next| next.parse().ok()).filter(|size| *size > 0);
    let own = name::random_uuid(random);
    Opening::anonymous(head, &name::of_uuid(Dialect::Matchbox, own), Matchbox::new(own, Rooms::new(&path, size)))
}

fn empty(status: u16) -> Answer {
    Answer::Http(HttpAnswer { status, headers: Vec::new(), body: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_requests_have_upstreams_answers() {
        for (method, path, expected) in [
            ("GET", "", 400),
            ("GET", "/", 400),
            ("GET", "/a%2Fb", 400),
            ("GET", "/a/b", 404),
            ("GET", "/room/", 404),
            ("POST", "/room", 404),
            ("GET", "/health", 200),
            ("GET", "/health/", 404),
        ] {
            let status = match request(&Head { method, path, ..Head::default() }, &[0; 32]) {
                Answer::Http(answer) => answer.status,
                _ => 404,
            };
            assert_eq!(status, expected, "{method} {path}");
        }
    }
}
