//! What a Kubernetes API server says of a service.

use std::time::Duration;

use signaling_discovery::kubernetes::fuzzing::Listener;

const MAX_LINES: usize = 100;

/// Lines: a list of slices, or an event of a watch, each as JSON; an empty line lets a second pass.
pub fn slices(data: &[u8]) {
    let (mut listener, mut seen) = (Listener::default(), Vec::new());
    for line in data.split(|byte| *byte == b'\n').take(MAX_LINES) {
        if line.is_empty() {
            listener.passes(Duration::from_secs(1));
            continue;
        }
        if !listener.hears(line) {
            continue;
        }
        let servers = listener.servers();
        assert!(servers.is_sorted_by(|one, next| one.0 < next.0), "{servers:?}");
        assert!(listener.hears(line) && listener.servers() == servers, "a line that came again has changed something");
        seen.extend(servers);
        let view = listener.view();
        for member in view.members() {
            let stands = seen.iter().any(|(id, address)| *id == member.id && *address == member.address);
            assert!(stands, "{member:?} is made up");
        }
    }
}
