//! The npm packages that the server is compared with.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

/// A package with a fixed version.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// Its name.
    pub name: &'static str,
    /// The version.
    pub version: &'static str,
    /// A file that exists once it is installed.
    pub file: &'static str,
}

impl Package {
    /// A directory with the installed package, kept between runs because an installation takes a
    /// minute. Needs npm.
    pub fn install(&self) -> anyhow::Result<PathBuf> {
        let label = self.name.rsplit('/').next().unwrap_or(self.name);
        let home = std::env::temp_dir().join(format!("planisphere-bench-{label}-{}", self.version));
        if self.is_installed(&home) {
            return Ok(home);
        }
        std::fs::create_dir_all(&home)?;
        std::fs::write(home.join("package.json"), r#"{"name":"rival","private":true}"#)?;
        let status = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"])
            .arg(format!("{}@{}", self.name, self.version))
            .current_dir(&home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .context("could not run npm")?;
        let is_done = status.success() && self.is_installed(&home);
        anyhow::ensure!(is_done, "npm install {} failed", self.name);
        Ok(home)
    }

    fn is_installed(&self, home: &Path) -> bool {
        home.join("node_modules").join(self.name).join(self.file).exists()
            && home.join("node_modules/.package-lock.json").exists()
    }
}
