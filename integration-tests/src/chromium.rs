//! A headless Chromium process per test, driven over its DevTools socket.

mod devtools;
mod page;

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use signaling_devmesh::Service;
use tempfile::TempDir;

use self::devtools::Devtools;
pub use self::page::Page;
use crate::{program, until_some};

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const END_TIMEOUT: Duration = Duration::from_secs(1);

const FLAGS: [&str; 15] = [
    "--headless",
    // CI runs as root.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    // A container's /dev/shm may be too small.
    "--disable-dev-shm-usage",
    // Peers connect on a machine without network and multicast.
    "--allow-loopback-in-peer-connection",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
    // Camera and microphone without devices and questions.
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--window-size=800,800",
    "--remote-debugging-port=0",
];

/// A running browser with an empty profile. Dropping it ends it.
pub struct Chromium {
    devtools: Devtools,
    _service: Service,
    _profile: Profile,
}

/// The folder of a browser's profile.
struct Profile(TempDir);

impl Chromium {
    /// Starts a browser. Returns `None` without an installed one, and prints that the test is
    /// skipped; panics then with `CI=true`. Panics if it is not ready within 30 s.
    pub async fn start() -> Option<Self> {
        let program = program(&NAMES, "chromium")?;
        let profile = tempfile::tempdir().unwrap();
        let mut line: Vec<OsString> = vec![program.into()];
        line.extend(FLAGS.map(OsString::from));
        line.extend([format!("--user-data-dir={}", profile.path().display()).into(), "about:blank".into()]);
        let socket = until_some("Chromium to start", async || devtools_socket(profile.path()));
        let (service, socket) = Service::start(&line, &profile.path().join("chromium.log"), socket).await.unwrap();
        let devtools = Devtools::connect(&socket).await;
        Some(Self { devtools, _service: service, _profile: Profile(profile) })
    }

    /// Opens a page that shares no storage with other pages, and loads `url`. Failures show `name`.
    pub async fn open(&self, name: &str, url: &str) -> Page<'_> {
        let context = self.devtools.call(None, "Target.createBrowserContext", json!({})).await;
        let target = json!({ "url": "about:blank", "browserContextId": context["browserContextId"] });
        let target = self.devtools.call(None, "Target.createTarget", target).await;
        let target = target["targetId"].as_str().unwrap().to_owned();
        let attach = json!({ "targetId": target, "flatten": true });
        let session = self.devtools.call(None, "Target.attachToTarget", attach).await;
        Page::open(&self.devtools, name, &target, session["sessionId"].as_str().unwrap(), url).await
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        // Processes of the browser end a little later, and write until then.
        let start = Instant::now();
        while std::fs::remove_dir_all(self.0.path()).is_err() && start.elapsed() < END_TIMEOUT {
            std::thread::yield_now();
        }
    }
}

/// Reads the browser's port and path from its profile, where it writes them at its start.
fn devtools_socket(profile: &Path) -> Option<String> {
    let text = std::fs::read_to_string(profile.join("DevToolsActivePort")).ok()?;
    let (port, path) = text.split_once('\n')?;
    path.starts_with("/devtools/browser/").then(|| format!("ws://127.0.0.1:{port}{}", path.trim_end()))
}
