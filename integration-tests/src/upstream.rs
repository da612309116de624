//! Clients of other signaling servers, from their npm packages, in pages of the browser.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::optional::program;
use crate::{Chromium, Page, TestMesh, binaries};

/// `package.json` with fixed versions of the clients, of all packages that they use, and of the
/// bundler.
const PACKAGES: &str = r#"{
    "private": true,
    "dependencies": {
        "@epicgames-ps/lib-pixelstreamingcommon-ue5.7": "0.1.5",
        "@epicgames-ps/lib-pixelstreamingfrontend-ue5.7": "0.3.1",
        "@protobuf-ts/runtime": "2.11.1",
        "array-push-at-sort-position": "5.0.0",
        "binary-decision-diagram": "4.0.0",
        "broadcast-channel": "7.4.0",
        "custom-idle-queue": "5.0.2",
        "esbuild": "0.28.2",
        "event-reduce-js": "6.0.0",
        "eventemitter3": "4.0.7",
        "gstwebrtc-api": "3.0.0",
        "lib0": "0.2.120",
        "mingo": "7.2.4",
        "oblivious-set": "2.0.0",
        "peerjs": "1.5.5",
        "peerjs-js-binarypack": "2.1.0",
        "rxdb": "17.6.0",
        "rxjs": "7.8.2",
        "sdp": "3.2.2",
        "simple-peer": "9.11.1",
        "tslib": "2.9.1",
        "unload": "2.4.1",
        "webrtc-adapter": "9.0.6",
        "y-protocols": "1.0.7",
        "y-webrtc": "10.3.0",
        "yjs": "13.6.33"
    }
}"#;
const EXPORTS: &str = "
    export { Config, PixelStreaming } from '@epicgames-ps/lib-pixelstreamingfrontend-ue5.7';
    export { default as GstWebRTCAPI } from 'gstwebrtc-api';
    export { Peer } from 'peerjs';
    export { createRxDatabase } from 'rxdb/plugins/core';
    export { getConnectionHandlerSimplePeer, replicateWebRTC } from 'rxdb/plugins/replication-webrtc';
    export { getRxStorageMemory } from 'rxdb/plugins/storage-memory';
    export { WebrtcProvider } from 'y-webrtc';
    export { Doc } from 'yjs';";

/// Where the demo pages load packages from.
const CDN: &str = "https://unpkg.com/";
/// Returns all files from elsewhere that a page has loaded without a hash.
const UNHASHED: &str = "(() => {
    const scripts = [...document.querySelectorAll('script[integrity]')].map(({ src }) => src);
    const map = JSON.parse(document.querySelector('script[type=importmap]')?.text ?? '{}');
    const hashed = new Set([location.origin, ...scripts, ...Object.keys(map.integrity ?? {})]);
    const loaded = performance.getEntriesByType('resource').map(({ name }) => name);
    return loaded.filter((url) => !hashed.has(url) && !hashed.has(new URL(url).origin));
})()";

/// Arguments of npm that succeed if its registry answers within 10 s.
const REACH: [&str; 5] = ["view", "peerjs", "version", "--fetch-retries=0", "--fetch-timeout=10000"];
const INSTALL: [&str; 5] = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"];
const BUNDLE: [&str; 6] =
    ["exports.js", "--bundle", "--minify", "--format=iife", "--global-name=upstream", "--outfile=clients.js"];

/// A mesh of three nodes and two balancers with all dialects, and a browser for clients of other
/// signaling servers.
pub struct UpstreamMesh {
    browser: Chromium,
    clients: String,
    pub mesh: TestMesh,
    /// Client addresses of the two balancers, `HOST:PORT`.
    pub balancers: [String; 2],
}

impl UpstreamMesh {
    /// Starts the mesh and the browser. Returns `None` and prints that the test is skipped if a
    /// program is missing or npm does not reach its registry. With `CI=true` a missing program
    /// panics.
    pub async fn start() -> Option<Self> {
        let (clients, browser) = (upstream_clients()?, Chromium::start().await?);
        let (mesh, balancers) = TestMesh::with_dialects(&["--demo"]).await;
        Some(Self { browser, clients, mesh, balancers })
    }

    /// Opens a page of the server at `address`, `HOST:PORT`, and defines the clients as `upstream`.
    /// Then calls `function`, the source of a JavaScript function, with `options`, and waits for
    /// its promise. Panics if it throws. Failures show `name`.
    pub async fn page(&self, name: &str, address: &str, function: &str, options: Value) -> Page<'_> {
        let page = self.browser.open(name, &format!("http://{address}/y-webrtc")).await;
        page.evaluate(&format!("{}\n({function})({options})", self.clients)).await;
        page
    }

    /// Opens the demo page of a server and follows its link to another page, which starts with this
    /// fragment. Waits until its client is connected.
    pub async fn demo_page(&self, address: &str, path: &str, fragment: &str) -> Page<'_> {
        let page = self.browser.open(&path[1..], &format!("http://{address}/")).await;
        page.serve_packages(CDN).await;
        let link = format!("document.querySelector('a[href=\"{path}\"]')");
        page.becomes(&format!("{link} !== null")).await;
        page.evaluate(&format!("location.href = {link}.href + '{fragment}'; null")).await;
        page.becomes(&format!("location.pathname === '{path}' && document.readyState === 'complete'")).await;
        page.shows("#signaling-state", "connected").await;
        assert_eq!(page.evaluate(UNHASHED).await, json!([]));
        page
    }
}

/// Returns an installed file by its URL at the CDN, such as `https://unpkg.com/yjs@13.6.33/dist/yjs.mjs`.
/// `None`: the package does not have the file or this version.
pub(crate) fn published_file(url: &str) -> Option<Vec<u8>> {
    let (version, file) = url.strip_prefix(CDN)?.split_once('/')?;
    let (name, version) = version.split_once('@')?;
    let package = binaries().join("upstream-clients/node_modules").join(name);
    let manifest: Value = serde_json::from_slice(&fs::read(package.join("package.json")).ok()?).ok()?;
    (manifest["version"] == version).then(|| fs::read(package.join(file)).ok())?
}

/// Returns the directory with the programs of upstream's packages, such as the server of y-webrtc.
/// It is there once [`upstream_clients`] has installed them.
pub(crate) fn upstream_programs() -> PathBuf {
    binaries().join("upstream-clients/node_modules/.bin")
}

/// Returns a script that defines the clients as `upstream`. Without Node.js, npm or its registry
/// prints that the test is skipped and returns `None`.
pub fn upstream_clients() -> Option<String> {
    program(&["node"], "nodejs")?;
    let npm = program(&["npm"], "npm")?;
    let dir = binaries().join("upstream-clients");
    fs::create_dir_all(&dir).unwrap();
    // Each test is a process. The first one installs the packages, and the others wait for it.
    let lock = File::create(dir.join("lock")).unwrap();
    lock.lock().unwrap();
    let installed = dir.join("installed");
    if fs::read_to_string(&installed).is_ok_and(|packages| packages == PACKAGES) {
        return Some(fs::read_to_string(dir.join("clients.js")).unwrap());
    }
    if let Err(error) = run(&npm, &REACH, &dir) {
        eprintln!("skipped: npm does not reach its registry: {error}");
        return None;
    }
    fs::write(dir.join("package.json"), PACKAGES).unwrap();
    fs::write(dir.join("exports.js"), EXPORTS).unwrap();
    run(&npm, &INSTALL, &dir).unwrap();
    run(&dir.join("node_modules/.bin/esbuild"), &BUNDLE, &dir).unwrap();
    fs::write(installed, PACKAGES).unwrap();
    Some(fs::read_to_string(dir.join("clients.js")).unwrap())
}

/// Runs a program in `dir`. Panics if it does not start.
///
/// # Errors
/// If its exit status is not 0: its standard error.
fn run(program: &Path, arguments: &[&str], dir: &Path) -> Result<(), String> {
    let output = Command::new(program).args(arguments).current_dir(dir).output().unwrap();
    output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
}
