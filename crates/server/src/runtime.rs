//! The `main` function of a server, and its runtime. The two server binaries call [`serve_main`].

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, spawn_local};

use crate::coalescer::Coalescer;
use crate::{Common, ConfigError, Shutdown, config_file, telemetry};

/// Runs a server from its command line to its end: reads its settings, starts logs, the runtime and
/// signal handlers, and executes `run` in a `LocalSet`.
/// `check` is that of [`config_file::load`]. `parts` returns the settings of both servers, and the
/// read delay of the thread. The exit code is 0 if `run` succeeds or a flag like `--check` or
/// `--help` replaces it, 1 if it or the start fails, and 2 for invalid settings. Errors are printed
/// to standard error.
pub fn serve_main<A, C, F, E>(
    check: impl FnOnce(A) -> Result<C, ConfigError>,
    parts: fn(&C) -> (&Common, &Coalescer),
    run: impl FnOnce(C, Shutdown) -> F,
) -> ExitCode
where
    A: CommandFactory + FromArgMatches,
    F: Future<Output = Result<(), E>> + 'static,
    E: Display + 'static,
{
    let serve = |config| -> Result<(), Box<dyn Error>> {
        let (common, coalescer) = parts(&config);
        telemetry::start(common.log_format, &common.log)?;
        runtime(coalescer)?.block_on(async {
            let shutdown = Shutdown::install()?;
            // As a task of its own the server is not polled on every wake of another task.
            let served = LocalSet::new().run_until(async { spawn_local(run(config, shutdown)).await }).await?;
            served.map_err(|error| format!("{error:#}").into())
        })
    };
    match config_file::load(check).map(serve) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("{}: {error}", A::command().get_name());
            ExitCode::FAILURE
        }
        Err(code) => code,
    }
}

/// Builds a runtime of one thread that coalesces input when busy. The calling thread must enter it.
///
/// # Errors
/// If the system refuses the resources.
fn runtime(coalescer: &Coalescer) -> io::Result<Runtime> {
    let (park, unpark) = (coalescer.clone(), coalescer.clone());
    let mut builder = Builder::new_current_thread();
    builder.enable_all().on_thread_park(move || park.on_turn_end()).on_thread_unpark(move || unpark.on_wake());
    builder.build()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::FlushSignal;
    use crate::coalescer::BusyThresholds;

    /// Returns the shortest sleep of a task that works for 1 ms and sleeps for 1 ms, within 200 ms
    /// after the first 50 ms.
    fn shortest_sleep(max_delay: Duration) -> Duration {
        let mut shortest = Duration::MAX;
        let busy = BusyThresholds { enter: 1, exit: 0, full_delay_percent: 1 };
        runtime(&Coalescer::new(max_delay, busy)).unwrap().block_on(async {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(250) {
                let turn = Instant::now();
                while turn.elapsed() < Duration::from_millis(1) {}
                let (sleeps_at, is_late) = (Instant::now(), start.elapsed() > Duration::from_millis(50));
                tokio::time::sleep(Duration::from_millis(1)).await;
                if is_late {
                    shortest = shortest.min(sleeps_at.elapsed());
                }
            }
        });
        shortest
    }

    #[test]
    fn busy_runtime_coalesces_input() {
        // Other work on the machine only prolongs a sleep.
        let shortest = |max_delay| (0..5).map(|_| shortest_sleep(max_delay)).min().unwrap_or_default();
        let (immediate, coalesced) = (shortest(Duration::ZERO), shortest(Duration::from_millis(10)));
        let limit = Duration::from_millis(6);
        assert!(immediate < limit && limit < coalesced, "{immediate:?} and {coalesced:?}");
    }

    #[test]
    fn flush_waits_for_all_ready_tasks() {
        let busy = BusyThresholds { enter: 0, exit: 0, full_delay_percent: 1 };
        let coalescer = Coalescer::new(Duration::from_millis(1), busy);
        let inputs_before_flush = runtime(&coalescer).unwrap().block_on(LocalSet::new().run_until(async {
            let (signal, inputs) = (Rc::new(FlushSignal::new(&coalescer)), Rc::new(Cell::new(0)));
            let flush = {
                let (signal, inputs) = (Rc::clone(&signal), Rc::clone(&inputs));
                spawn_local(async move {
                    signal.wait().await;
                    inputs.get()
                })
            };
            tokio::time::sleep(Duration::from_millis(60)).await;
            let mut last = spawn_local(tokio::time::sleep(Duration::from_millis(1)));
            for _ in 0..3 {
                let (signal, inputs, previous) = (Rc::clone(&signal), Rc::clone(&inputs), last);
                last = spawn_local(async move {
                    previous.await.unwrap();
                    inputs.update(|count| count + 1);
                    signal.flush_now();
                });
            }
            flush.await.unwrap()
        }));
        assert_eq!(inputs_before_flush, 3);
    }

    #[test]
    fn endless_turn_delays_no_flush_for_long() {
        let busy = BusyThresholds { enter: 0, exit: 0, full_delay_percent: 1 };
        let coalescer = Coalescer::new(Duration::from_millis(1), busy);
        let is_flushed = runtime(&coalescer).unwrap().block_on(LocalSet::new().run_until(async {
            for millis in [60, 1] {
                tokio::time::sleep(Duration::from_millis(millis)).await;
            }
            spawn_local(async {
                loop {
                    tokio::task::yield_now().await;
                }
            });
            let signal = FlushSignal::new(&coalescer);
            signal.flush_now();
            tokio::time::timeout(Duration::from_secs(2), signal.wait()).await.is_ok()
        }));
        assert!(is_flushed);
    }

    #[test]
    fn runtime_that_waits_for_timers_is_idle() {
        let coalescer =
            Coalescer::new(Duration::from_millis(1), BusyThresholds { enter: 50, exit: 50, full_delay_percent: 50 });
        runtime(&coalescer).unwrap().block_on(async {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        });
        assert!(!coalescer.coalesce_now());
    }
}
