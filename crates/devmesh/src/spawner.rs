use std::io;
use std::thread;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

/// A thread that starts all child processes and lives as long as this value.
///
/// The kernel's parent-death signal follows the *thread* that started a child, and a runtime's
/// threads may end early.
pub(crate) struct Spawner {
    jobs: mpsc::Sender<Job>,
}

struct Job {
    command: Command,
    answer: oneshot::Sender<io::Result<Child>>,
}

/// Maximum queued starts. Further starts wait in their callers.
const WAITING_STARTS: usize = 16;

impl Spawner {
    pub(crate) fn start() -> io::Result<Self> {
        let (jobs, mut waiting) = mpsc::channel::<Job>(WAITING_STARTS);
        let runtime = Handle::current();
        thread::Builder::new().name("spawner".into()).spawn(move || {
            while let Some(mut job) = waiting.blocking_recv() {
                let _inside = runtime.enter();
                let started = job.command.spawn();
                if let Err(Ok(unwanted)) = job.answer.send(started) {
                    drop(unwanted);
                }
            }
        })?;
        Ok(Self { jobs })
    }

    pub(crate) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (answer, started) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts processes has ended");
        self.jobs.send(Job { command, answer }).await.map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }
}
