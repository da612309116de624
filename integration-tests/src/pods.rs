//! Pods without a cluster: each in a network namespace and an empty root of its own, as a user without rights.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command as Spawned};

use crate::again::again;
use crate::rendered::{Pod, list};

/// Set in the process that runs inside.
const INSIDE: &str = "PODS_INSIDE_NAMESPACE";
/// Where the machine that runs the pods is to be found by them.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// What they share: a network of their own, and mounts that end with it.
const PREPARE: &str = "mount --make-rprivate / && mkdir -p /run/netns && mount -t tmpfs pods /run/netns && ip link set lo up && \
                       ip link add pods type bridge && ip address add 10.77.0.1/24 dev pods && ip link set pods up";

/// Runs the test with this path (`file::function`) again in a network of its own, unless this is that run. Says whether to go on here.
///
/// # Panics
/// If such a network cannot be made (that takes root), or the test fails inside.
#[must_use]
pub fn enter(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let run = Command::new("unshare")
        .args(["--net", "--mount", "--", "sh", "-c", &format!("{PREPARE} && exec \"$@\""), "sh"])
        .args(again(test))
        .env(INSIDE, "1")
        .status();
    assert!(run.unwrap().success());
    false
}

/// An image, unpacked.
pub struct Image {
    dir: TempDir,
    /// What it says of how to run it.
    pub config: Value,
}

impl Image {
    /// Unpacks a docker archive of one image.
    #[must_use]
    pub fn unpack(archive: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (packed, root) = (dir.path().join("packed"), dir.path().join("root"));
        for folder in [&packed, &root] {
            fs::create_dir(folder).unwrap();
        }
        run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&packed));
        let read = |name: &str| serde_json::from_slice::<Value>(&fs::read(packed.join(name)).unwrap()).unwrap();
        let manifest = read("manifest.json");
        for layer in list(&manifest[0]["Layers"]) {
            run(Command::new("tar").arg("-xpf").arg(packed.join(layer.as_str().unwrap())).arg("-C").arg(&root));
        }
        let config = read(manifest[0]["Config"].as_str().unwrap());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir, config }
    }

    /// Its root.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }
}

/// What a pod finds in its root beside the image, as a kubelet would lay it there.
pub struct Surroundings<'a> {
    /// Names that it can resolve.
    pub hosts: &'a str,
    /// Files by path.
    pub files: &'a [(&'a str, &'a [u8])],
    /// Variables that the manifest does not give itself.
    pub variables: &'a [(&'a str, &'a str)],
}

/// A pod that runs. It ends with this value.
pub struct RunningPod {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// What it says.
    pub log: PathBuf,
    /// Its process.
    pub process: Child,
    _root: TempDir,
}

impl RunningPod {
    /// Starts the container of a pod from an image: in a root that is read-only, in the network as number `n`.
    ///
    /// # Panics
    /// If that cannot be done.
    #[must_use]
    pub fn start(image: &Image, pod: Pod<'_>, n: u8, around: &Surroundings<'_>) -> Self {
        let (name, address) = (format!("{}-{n}", pod.name()), Ipv4Addr::new(10, 77, 0, 10 + n));
        shell(&format!(
            "ip netns add p{n} && ip link add v{n} type veth peer name eth0 netns p{n} && ip link set v{n} master pods up && \
             ip -n p{n} address add {address}/24 dev eth0 && ip -n p{n} link set eth0 up && ip -n p{n} link set lo up"
        ));
        let dir = tempfile::tempdir().unwrap();
        let (root, log) = (dir.path().join("root"), dir.path().join("log"));
        run(Command::new("cp").arg("-a").arg(image.root()).arg(&root));
        for path in [dir.path(), &root] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let user = pod.spec()["securityContext"]["runAsUser"].as_u64().unwrap();
        let hosts = ("/etc/hosts", around.hosts.as_bytes());
        for (path, content) in around.files.iter().chain([&hosts, &("/etc/resolv.conf", b"")]) {
            let file = root.join(path.trim_start_matches('/'));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, content).unwrap();
        }
        let expand = |text: &str| {
            let mut text = text.replace("$(POD_NAME)", &name).replace("$(POD_NAMESPACE)", "signaling");
            for (variable, value) in around.variables {
                text = text.replace(&format!("$({variable})"), value);
            }
            text
        };
        let mount = format!("mount --bind {0} {0} && mount -o remount,bind,ro {0} && exec \"$@\"", root.display());
        let mut process = Spawned::new("setpriv");
        process.args(["--pdeathsig", "KILL", "--no-new-privs", "--", "ip", "netns", "exec", &format!("p{n}")]);
        process.args(["unshare", "--mount", "--", "sh", "-c", &mount, "sh"]);
        process.args(["chroot", &format!("--userspec={user}:{user}"), "--groups="]).arg(&root);
        process.arg(pod.container()["command"][0].as_str().unwrap());
        process.args(pod.arguments().into_iter().map(&expand));
        process.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        process.envs(around.variables.iter().copied());
        process.envs(pod.variables().filter_map(|(name, value)| Some((name, expand(value?)))));
        let out = fs::File::create(&log).unwrap();
        process.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out).kill_on_drop(true);
        Self { name, address, log, process: process.spawn().unwrap(), _root: dir }
    }

    /// What it said so far.
    #[must_use]
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// `Uid`, `CapEff` and the like, as the system has them of its process.
    #[must_use]
    pub fn status(&self, field: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id().unwrap())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(&format!("{field}:"))).unwrap();
        line.split_whitespace().next().unwrap_or_default().to_owned()
    }
}

fn shell(script: &str) {
    run(Command::new("sh").args(["-c", script]));
}

fn run(command: &mut Command) {
    let run = command.output().unwrap();
    assert!(run.status.success(), "{command:?}: {}", String::from_utf8_lossy(&run.stderr));
}
