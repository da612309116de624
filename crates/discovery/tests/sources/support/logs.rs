//! Log lines of this thread.

use std::fs;
use std::sync::Arc;

use tempfile::NamedTempFile;

pub(crate) struct Logs {
    file: NamedTempFile,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Logs {
    pub(crate) fn collect() -> Self {
        let file = NamedTempFile::new().unwrap();
        let writer = Arc::new(file.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        Self { file, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Returns the log lines of discovery that contain `part`.
    pub(crate) fn with(&self, part: &str) -> Vec<String> {
        let text = fs::read_to_string(self.file.path()).unwrap();
        let own = text.lines().filter(|line| line.contains(" signaling_discovery") && line.contains(part));
        own.map(str::to_owned).collect()
    }
}
