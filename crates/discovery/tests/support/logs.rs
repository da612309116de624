//! Log lines of this thread.

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

/// Collects log lines until dropped.
pub(crate) struct Logs {
    lines: Lines,
    _guard: tracing::subscriber::DefaultGuard,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Logs {
    pub(crate) fn collect() -> Self {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(lines.clone()).finish();
        Self { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Returns the log lines of discovery that contain `part`.
    pub(crate) fn with(&self, part: &str) -> Vec<String> {
        let text = String::from_utf8(self.lines.0.lock().unwrap().clone()).unwrap();
        let own = text.lines().filter(|line| line.contains(" signaling_discovery") && line.contains(part));
        own.map(str::to_owned).collect()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
