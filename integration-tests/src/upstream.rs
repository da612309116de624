//! Clients of other signaling servers (upstream), from their npm packages, in pages of the browser.
//! Tests of dialects and `load` call it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{Chromium, Page, TestMesh, binaries, npm};

/// `package.json` with fixed versions of the clients, of the packages in their bundle, and of the
/// bundler.
const PACKAGES: &str = include_str!("upstream/package.json");
/// Folder of the installed packages.
const FOLDER: &str = "upstream-clients";
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
    let package = binaries().join(FOLDER).join("node_modules").join(name);
    let manifest: Value = serde_json::from_slice(&fs::read(package.join("package.json")).ok()?).ok()?;
    (manifest["version"] == version).then(|| fs::read(package.join(file)).ok())?
}

/// Returns the directory with the programs of upstream's packages, such as the server of y-webrtc.
/// It exists once [`upstream_script`] has installed them.
pub(crate) fn upstream_program_dir() -> PathBuf {
    binaries().join(FOLDER).join("node_modules/.bin")
}

/// Returns a script that defines the clients as `upstream`. Installs their packages first if
/// necessary. Returns `None` without them, as [`npm::install`].
pub fn upstream_script() -> Option<String> {
    let bundle = |dir: &Path| {
        fs::write(dir.join("exports.js"), BUNDLED_EXPORTS).unwrap();
        npm::run(&dir.join("node_modules/.bin/esbuild"), &ESBUILD_ARGUMENTS, dir).unwrap();
    };
    let dir = npm::install(FOLDER, PACKAGES, bundle)?;
    Some(fs::read_to_string(dir.join("clients.js")).unwrap())
}
