//! A page of the browser: its content, and its user's actions.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::devtools::Devtools;
use crate::binaries;
use crate::wait::try_within;

const CHANGE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time without movement before a click.
const STILL_FOR: Duration = Duration::from_millis(150);
const MAX_MOVEMENT_CHECKS: usize = 20;
const MAX_CLICKS: usize = 3;
/// Script that counts ended data channels and keeps received messages. It runs before the page's
/// scripts.
const OBSERVE: &str = include_str!("observe.js");
/// Function that returns an element's middle, and whether a click there hits the element. It marks
/// the next click.
const REST_POSITION: &str = include_str!("rest_position.js");

/// A page in a browser context of its own.
pub struct Page<'a> {
    devtools: &'a Devtools,
    name: String,
    target: String,
    session: String,
}

impl<'a> Page<'a> {
    pub(super) async fn open(devtools: &'a Devtools, name: &str, target: &str, session: &str, url: &str) -> Self {
        let (name, target, session) = (name.to_owned(), target.to_owned(), session.to_owned());
        let page = Self { devtools, name, target, session };
        for domain in ["Page", "Runtime", "Log"] {
            page.call(&format!("{domain}.enable"), json!({})).await;
        }
        page.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": OBSERVE })).await;
        // Otherwise only one of several pages gets key events.
        page.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true })).await;
        page.navigate(url).await;
        page
    }

    /// Loads another document, and returns once its scripts can run. Panics if there is none.
    pub async fn navigate(&self, url: &str) {
        let navigated = self.call("Page.navigate", json!({ "url": url })).await;
        assert!(navigated.get("errorText").is_none(), "{url}: {navigated}");
    }

    /// Returns the value of a JavaScript expression, or of its promise; null for `undefined`.
    /// Panics if it throws, or takes over 20 s.
    pub async fn evaluate(&self, expression: &str) -> Value {
        // A page opens no other page without a user gesture.
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true });
        let mut answer = self.call("Runtime.evaluate", params).await;
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    /// Returns the text of the last matching element; `None` if there is none.
    pub async fn text(&self, selector: &str) -> Option<String> {
        let last = format!("[...document.querySelectorAll({})].at(-1)?.textContent", json!(selector));
        self.evaluate(&last).await.as_str().map(str::to_owned)
    }

    /// Waits until the last matching element has this text. Fails the test after 20 s.
    pub async fn shows(&self, selector: &str, text: &str) {
        let is_shown = async || (self.text(selector).await.as_deref() == Some(text)).then_some(());
        if try_within(CHANGE_TIMEOUT, is_shown).await.is_none() {
            let shown = self.text(selector).await;
            self.fail(&format!("{shown:?} instead of {text:?} as {selector}")).await;
        }
    }

    /// Waits until an expression is `true`. Fails the test after 20 s.
    pub async fn becomes(&self, expression: &str) {
        let is_true = async || (self.evaluate(expression).await == json!(true)).then_some(());
        if try_within(CHANGE_TIMEOUT, is_true).await.is_none() {
            self.fail(&format!("not {expression}")).await;
        }
    }

    /// Returns the messages of this type from servers since the page was loaded.
    pub async fn received(&self, kind: &str) -> Vec<Value> {
        let all = self.evaluate("window.receivedMessages").await;
        all.as_array().unwrap().iter().filter(|message| message["type"] == kind).cloned().collect()
    }

    /// Serves later requests for URLs with this prefix from the installed packages; 404 for other
    /// files. The npm packages of `upstream` must be installed.
    pub async fn serve_packages(&self, prefix: &str) {
        self.call("Fetch.enable", json!({ "patterns": [{ "urlPattern": format!("{prefix}*") }] })).await;
    }

    /// Reloads the page and waits until it is complete. Fails the test after 20 s.
    pub async fn reload(&self) {
        self.call("Page.reload", json!({})).await;
        // Ignores the state of the previous page.
        let is_new =
            "document.readyState === 'complete' && performance.getEntriesByType('navigation')[0].type === 'reload'";
        self.becomes(is_new).await;
    }

    /// Closes the page, whose client loses its socket.
    pub async fn close(self) {
        self.devtools.call(None, "Target.closeTarget", json!({ "targetId": self.target })).await;
    }

    /// Clicks an element and checks that the click arrived. Repeats it like a user if the element
    /// moved away. Panics if three clicks miss, or the element is missing or hidden.
    pub async fn click(&self, selector: &str) {
        for _ in 0..MAX_CLICKS {
            let at = self.rest_position(selector).await;
            for kind in ["mousePressed", "mouseReleased"] {
                let event = json!({ "type": kind, "x": at["x"], "y": at["y"], "button": "left", "clickCount": 1 });
                self.call("Input.dispatchMouseEvent", event).await;
            }
            if self.evaluate("window.isClicked").await == true {
                return;
            }
            eprintln!("{}: {selector} moved away under the mouse", self.name);
        }
        panic!("{}: {selector} moves away whenever it is clicked", self.name);
    }

    /// Waits until an element rests and returns the position of its middle. Installs a marker for
    /// its next click.
    async fn rest_position(&self, selector: &str) -> Value {
        let centre = format!("({REST_POSITION})({})", json!(selector));
        let mut at = self.evaluate(&centre).await;
        // Elements above it may still appear or vanish, and move it.
        for _ in 0..MAX_MOVEMENT_CHECKS {
            sleep(STILL_FOR).await;
            let now = self.evaluate(&centre).await;
            if std::mem::replace(&mut at, now.clone()) == now && now["isHit"] == true {
                break;
            }
        }
        assert_eq!(at["isHit"], true, "{}: {selector} is hidden, or something is before it", self.name);
        at
    }

    /// Clicks an element and types the text. Panics if the element is not visible.
    pub async fn type_into(&self, selector: &str, text: &str) {
        self.click(selector).await;
        self.type_here(text).await;
    }

    /// Types a text at the caret.
    pub async fn type_here(&self, text: &str) {
        self.call("Input.insertText", json!({ "text": text })).await;
    }

    /// Returns all errors of the page so far: exceptions, failed loads and `console.error`.
    pub async fn complaints(&self) -> Vec<String> {
        // Earlier events arrive before the answer to a later command.
        self.evaluate("0").await;
        self.devtools.complaints(&self.session).await
    }

    /// Saves a PNG of the page in the folder `screenshots` beside the binaries. Returns its path.
    pub async fn screenshot(&self) -> PathBuf {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" })).await;
        let dir = binaries().join("screenshots");
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("{}-{}.png", self.name, std::process::id()));
        std::fs::write(&path, STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()).unwrap();
        path
    }

    async fn fail(&self, what: &str) {
        let (console, screenshot) = (self.complaints().await, self.screenshot().await);
        panic!("{}: {what}; its console: {console:?}; screenshot: {}", self.name, screenshot.display());
    }

    async fn call(&self, method: &str, params: Value) -> Value {
        self.devtools.call(Some(&self.session), method, params).await
    }
}
