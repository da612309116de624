//! The calls of `examples/` work in two pages: pictures and messages arrive.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use signaling_devmesh::Service;
use signaling_integration_tests::{Chromium, TestMesh, binaries, missing, program, until_some};
use tokio::net::TcpStream;

/// Address that the examples name.
const MESH: &str = "127.0.0.1:8080";
/// Files of the Vite example.
const VITE: [&str; 5] = ["package.json", "tsconfig.json", "index.html", "src/main.ts", "src/style.css"];

#[tokio::test]
async fn call_html_connects_two_pages_without_tools() {
    let Some(python) = program(&["python3"], "python3") else { return };
    let Some(browser) = Chromium::start().await else { return };
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(examples().join("call.html")).unwrap();
    std::fs::write(folder.path().join("call.html"), page.replace(MESH, &mesh.address())).unwrap();
    let port = free_port();
    let arguments = format!("-m http.server {port} --bind 127.0.0.1 --directory {}", folder.path().display());
    let _server = serve(&python, &arguments, folder.path(), port).await;
    talk(&browser, &format!("http://127.0.0.1:{port}/call.html#den")).await;
}

#[tokio::test]
async fn vite_example_connects_two_pages_of_its_preview() {
    let Some(npm) = program(&["npm"], "npm") else { return };
    let packages = binaries().parent().unwrap().join("package");
    let is_packed = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "tgz");
    let entries = std::fs::read_dir(&packages).into_iter().flatten();
    let Some(packed) = entries.map(|entry| entry.unwrap().path()).find(is_packed) else {
        return missing("packed SDK", "none: run make package");
    };
    let Some(browser) = Chromium::start().await else { return };
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let folder = binaries().join("vite-example");
    std::fs::create_dir_all(folder.join("src")).unwrap();
    for file in VITE {
        std::fs::copy(examples().join("vite").join(file), folder.join(file)).unwrap();
    }
    let install = ["install", "--no-save", "--no-audit", "--no-fund", packed.to_str().unwrap()];
    let mesh_url = format!("ws://{}", mesh.address());
    for arguments in [&install[..], &["run", "build"]] {
        let output = Command::new(&npm).args(arguments).current_dir(&folder).env("VITE_MESH", &mesh_url).output();
        let output = output.unwrap();
        assert!(output.status.success(), "npm {arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    }
    let port = free_port();
    let arguments = format!("preview --host 127.0.0.1 --strictPort --port {port} {}", folder.display());
    let _server = serve(&folder.join("node_modules/.bin/vite"), &arguments, &folder, port).await;
    talk(&browser, &format!("http://127.0.0.1:{port}/#den")).await;
}

/// Opens the page twice, and waits for pictures and a message in both directions.
async fn talk(browser: &Chromium, url: &str) {
    let pages = [browser.open("first", url).await, browser.open("second", url).await];
    for page in &pages {
        page.becomes("document.querySelector('video:not(#own)')?.videoWidth > 0").await;
    }
    let [first, second] = &pages;
    for (from, to, text) in [(first, second, "Hello."), (second, first, "ü😀")] {
        from.evaluate(&format!("document.querySelector('input').value = {}", json!(text))).await;
        from.evaluate("document.querySelector('form').requestSubmit()").await;
        to.becomes(&format!("document.querySelector('ul').lastChild?.textContent.endsWith({})", json!(text))).await;
    }
    for page in pages {
        let complaints = page.complaints().await;
        let others: Vec<_> = complaints.iter().filter(|text| !text.contains("favicon.ico")).collect();
        assert!(others.is_empty(), "{others:?}");
    }
}

async fn serve(program: &Path, arguments: &str, folder: &Path, port: u16) -> Service {
    let mut line: Vec<OsString> = vec![program.into()];
    line.extend(arguments.split(' ').map(OsString::from));
    let answers = until_some("the pages to be served", async || TcpStream::connect(("127.0.0.1", port)).await.ok());
    Service::start(&line, &folder.join("server.log"), answers).await.unwrap().0
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}
