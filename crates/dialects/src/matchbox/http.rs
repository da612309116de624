//! HTTP requests of matchbox clients: the upgrade to a room, and the health check.

use super::Matchbox;
use super::names::{self, Rooms};
use crate::query;
use crate::request::{Answer, Head, HttpAnswer, Opening};

/// Returns the answer to a request below the mount. The mount itself is a room, too.
pub(crate) fn request(head: &Head<'_>, random: &[u8; 32]) -> Answer {
    let segment = head.path.strip_prefix('/').unwrap_or(head.path);
    if head.method != "GET" || segment.contains('/') {
        return Answer::NotFound;
    }
    if segment == "health" {
        return empty(200);
    }
    let path = String::from_utf8(query::percent_decode(segment)).ok().filter(|_| head.upgrade);
    let Some(path) = path else { return empty(400) };
    // Without a number, and with 0, groups have no limit: all clients are in one.
    let size = query::field(head.query, "next").and_then(|next| next.parse().ok()).filter(|size| *size > 0);
    let own = crate::name::random_uuid(random);
    Opening::anonymous(head, &names::of_client(own), Matchbox::new(own, Rooms::new(&path, size)).into())
}

fn empty(status: u16) -> Answer {
    Answer::Http(HttpAnswer { status, headers: Vec::new(), body: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(method: &str, path: &str, upgrade: bool) -> u16 {
        match request(&Head { method, path, upgrade, ..Head::default() }, &[0; 32]) {
            Answer::Http(answer) => answer.status,
            Answer::Upgrade(_) => 101,
            Answer::NotFound => 404,
            Answer::Reject(rejection) => panic!("{rejection:?}"),
        }
    }

    #[test]
    fn room_needs_an_upgrade() {
        for path in ["", "/", "/room", "/a%2Fb", "/%zz"] {
            assert_eq!((status("GET", path, true), status("GET", path, false)), (101, 400), "{path}");
        }
        assert_eq!(status("GET", "/%ff", true), 400);
    }

    #[test]
    fn other_paths_and_methods_are_not_found() {
        for path in ["/a/b", "/room/", "//"] {
            assert_eq!((status("GET", path, true), status("GET", path, false)), (404, 404), "{path}");
        }
        assert_eq!(status("POST", "/room", false), 404);
    }

    #[test]
    fn health_check_is_empty() {
        assert_eq!((status("GET", "/health", false), status("GET", "/health/", false)), (200, 404));
    }
}
