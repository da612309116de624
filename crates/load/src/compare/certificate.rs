use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::wire::SERVER_NAME;

/// A certificate that all contestants show: ECDSA on P-256, which nobody but itself has signed.
pub(crate) struct Certificate {
    pub(crate) path: PathBuf,
    pub(crate) key: PathBuf,
    /// Both in one file.
    pub(crate) both: PathBuf,
}

impl Certificate {
    /// Makes one in `dir` by openssl.
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        let [path, key, both] = ["certificate.pem", "key.pem", "both.pem"].map(|name| dir.join(name));
        let mut openssl = Command::new("openssl");
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ]);
        openssl.args(["-subj", &format!("/CN={SERVER_NAME}"), "-addext", &format!("subjectAltName=DNS:{SERVER_NAME}")]);
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"]).arg(&key).arg("-out").arg(&path);
        let made =
            openssl.output().context("there is no openssl to make a certificate: install it (`make deps-bench`)")?;
        if !made.status.success() {
            bail!("openssl has made no certificate: {}", String::from_utf8_lossy(&made.stderr).trim());
        }
        let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let text = [read(&path)?, read(&key)?].concat();
        std::fs::write(&both, text).with_context(|| format!("cannot write {}", both.display()))?;
        Ok(Self { path, key, both })
    }

    /// What our servers are told.
    pub(crate) fn flags(&self) -> [String; 2] {
        [format!("--tls-cert={}", self.path.display()), format!("--tls-key={}", self.key.display())]
    }
}
