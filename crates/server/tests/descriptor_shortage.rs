//! A listener that runs out of descriptors, in its own file: it lowers the limit of the process.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use signaling_server::Listener;
use signaling_server::process::cpu;
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test]
async fn listener_pauses_without_descriptors_and_then_resumes() {
    let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = TcpStream::connect(listener.local_addr()).await.unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // New descriptors take the lowest free number: with the limit there, none is left.
    let lowest_free = File::open("/dev/null").unwrap().as_raw_fd();
    setrlimit(Resource::RLIMIT_NOFILE, lowest_free.try_into().unwrap(), hard).unwrap();

    let before = cpu().unwrap();
    let shortage = Duration::from_millis(500);
    assert!(timeout(shortage, listener.accept()).await.is_err(), "there was a descriptor left");
    let burnt = cpu().unwrap() - before;
    assert!(burnt < shortage / 5, "accepting in vain took {burnt:?} of {shortage:?}");

    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    let (_, peer) = timeout(Duration::from_secs(5), listener.accept()).await.expect("not accepted");
    assert_eq!(peer, client.local_addr().unwrap());
}
