//! Clients of other signaling servers (upstream), from their npm packages, in pages of the browser.
//! Tests of dialects and `load` call it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::{Chromium, Page, TestMesh, binaries, program};

/// `package.json` with fixed versions of the clients, of the packages in their bundle, and of the
/// bundler.
const PACKAGES: &str = include_str!("upstream/package.json");
/// Module that the bundler turns into the script.
const BUNDLED_EXPORTS: &str = include_str!("upstream/exports.js");

/// CDN from which the demo pages load packages.
const CDN: &str = "https://unpkg.com/";
/// Expression for all URLs of other origins that a page has loaded and that have no hash.
const UNHASHED_URLS: &str = "(() => {
    const scripts = [...document.querySelectorAll('script[integrity]')].map(({ src }) => src);
    const map = JSON.parse(document.querySelector('script[type=importmap]')?.text ?? '{}');
    const hashed = new Set([location.origin, ...scripts, ...Object.keys(map.integrity ?? {})]);
    const loaded = performance.getEntriesByType('resource').map(({ name }) => name);
    return loaded.filter((url) => !hashed.has(url) && !hashed.has(new URL(url).origin));
})()";

/// Arguments of npm, which succeeds with them if its registry answers within 10 s.
const REGISTRY_PROBE: [&str; 5] = ["view", "peerjs", "version", "--fetch-retries=0", "--fetch-timeout=10000"];
const NPM_INSTALL: [&str; 5] = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"];
const ESBUILD_ARGUMENTS: [&str; 6] =
    ["exports.js", "--bundle", "--minify", "--format=iife", "--global-name=upstream", "--outfile=clients.js"];

/// A mesh of three nodes and two balancers with all dialects, and a browser for clients of other
/// signaling servers.
pub struct UpstreamMesh {
    browser: Chromium,
    /// JavaScript that defines the clients as `upstream`.
    script: String,
    pub mesh: TestMesh,
    /// Client addresses of the two balancers, `HOST:PORT`.
    pub balancers: [String; 2],
}

impl UpstreamMesh {
    /// Starts the mesh and the browser. Returns `None` and prints that the test is skipped if a
    /// program is missing or npm does not reach its registry. Panics at a missing program with
    /// `CI=true`.
    pub async fn start() -> Option<Self> {
        let (script, browser) = (upstream_script()?, Chromium::start().await?);
        let (mesh, balancers) = TestMesh::with_dialects(&["--demo", "--drain-ms=5000"]).await;
        Some(Self { browser, script, mesh, balancers })
    }

    /// Opens a page of the server at `address`, `HOST:PORT`, and defines the clients as `upstream`.
    /// Then calls `function`, the source of a JavaScript function, with `options`, and waits for
    /// its promise, if it returns one. Panics if it throws. Failures show `name`.
    pub async fn open_page(&self, name: &str, address: &str, function: &str, options: Value) -> Page<'_> {
        let page = self.browser.open(name, &format!("http://{address}/y-webrtc")).await;
        page.evaluate(&format!("{}\n({function})({options})", self.script)).await;
        page
    }

    /// Opens the demo page of the server at `address`, `HOST:PORT`, and follows its link to `path`.
    /// That page starts with `fragment` (`#NAME`, or empty). Waits until its client is connected.
    /// Panics if the page loads a file of another origin without a hash.
    pub async fn open_demo_page(&self, address: &str, path: &str, fragment: &str) -> Page<'_> {
        let page = self.browser.open(&path[1..], &format!("http://{address}/")).await;
        page.serve_packages(CDN).await;
        let link = format!("document.querySelector('a[href=\"{path}\"]')");
        page.becomes(&format!("{link} !== null")).await;
        let url = page.evaluate(&format!("{link}.href + '{fragment}'")).await;
        page.navigate(url.as_str().unwrap()).await;
        page.becomes(&format!("location.pathname === '{path}' && document.readyState === 'complete'")).await;
        page.shows("#signaling-state", "connected").await;
        assert_eq!(page.evaluate(UNHASHED_URLS).await, json!([]));
        page
    }
}

/// Returns the content of an installed file by its URL at the CDN, such as
/// `https://unpkg.com/yjs@13.6.33/dist/yjs.mjs`. `None` if the package is not installed, has another
/// version, or does not have the file.
pub(crate) fn installed_file(url: &str) -> Option<Vec<u8>> {
    let (version, file) = url.strip_prefix(CDN)?.split_once('/')?;
    let (name, version) = version.split_once('@')?;
    let package = binaries().join("upstream-clients/node_modules").join(name);
    let manifest: Value = serde_json::from_slice(&fs::read(package.join("package.json")).ok()?).ok()?;
    (manifest["version"] == version).then(|| fs::read(package.join(file)).ok())?
}

/// Returns the directory with the programs of upstream's packages, such as the server of y-webrtc.
/// It exists once [`upstream_script`] has installed them.
pub(crate) fn upstream_program_dir() -> PathBuf {
    binaries().join("upstream-clients/node_modules/.bin")
}

/// Returns a script that defines the clients as `upstream`, and installs their packages first if
/// necessary. Without npm's registry prints that the test is skipped and returns `None`; without
/// Node.js or npm too, but panics with `CI=true`.
pub fn upstream_script() -> Option<String> {
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
    if let Err(error) = run(&npm, &REGISTRY_PROBE, &dir) {
        eprintln!("skipped: npm does not reach its registry: {error}");
        return None;
    }
    fs::write(dir.join("package.json"), PACKAGES).unwrap();
    fs::write(dir.join("exports.js"), BUNDLED_EXPORTS).unwrap();
    run(&npm, &NPM_INSTALL, &dir).unwrap();
    run(&dir.join("node_modules/.bin/esbuild"), &ESBUILD_ARGUMENTS, &dir).unwrap();
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
