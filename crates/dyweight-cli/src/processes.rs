//! The processes of a job under `mpirun`: joining, sharing the cores, ending together.

use crate::ui;
use dyweight::comm::{Comm, Solo};
use dyweight::{Error, Result};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How long a failed process leaves rank 0 to say the same itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// Joins the job this process was started in; alone if it was started by hand.
#[cfg(feature = "mpi")]
pub fn join() -> Result<Arc<dyn Comm>> {
    // Each of these is set by the starters of one kind of MPI library.
    const SIGNS: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"];
    let started = SIGNS.iter().any(|sign| std::env::var_os(sign).is_some());
    Ok(match started.then(crate::mpi::Mpi::join).flatten() {
        Some(comm) => Arc::new(comm),
        None => Arc::new(Solo),
    })
}

/// Refuses to do the same work several times over.
#[cfg(not(feature = "mpi"))]
pub fn join() -> Result<Arc<dyn Comm>> {
    let size = std::env::var("OMPI_COMM_WORLD_SIZE").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    if size > 1 {
        return Err(Error::conflict(
            format!("{size} processes were started, but this dyweight works alone"),
            "build it with: cargo build --release -p dyweight-cli --features mpi",
        ));
    }
    Ok(Arc::new(Solo))
}

/// This process's part of the cores it shares with others of the job; none if it is alone on them.
pub fn fair_threads(comm: &dyn Comm) -> Option<usize> {
    if comm.size() == 1 {
        return None;
    }
    // Processes tied to cores of their own differ in what they may use, those on another machine in its name.
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let allowed = read("/proc/self/status").lines().find(|l| l.starts_with("Cpus_allowed_list")).map(String::from);
    let place = format!("{} {}", read("/proc/sys/kernel/hostname"), allowed.unwrap_or_default());
    let everyone = comm.all_gather_bytes(place.as_bytes()).unwrap_or_default();
    let neighbours = everyone.iter().filter(|other| *other == place.as_bytes()).count();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (cores / neighbours.max(1)).max(1);
    ui::say(&format!("{} processes with {threads} threads each; --threads changes that", comm.size()));
    Some(threads)
}

/// Ends the process, and if it failed the job.
pub fn end(comm: &dyn Comm, result: Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if comm.size() == 1 {
        return ExitCode::from(ui::fail(&error));
    }
    if let Error::Cancelled = error {
        // All have stopped: nobody is ended before rank 0 has saved the state.
        let _ = comm.barrier();
        return ExitCode::from(if comm.is_root() { ui::fail(&error) } else { ui::exit_code(&error) });
    }
    if !comm.is_root() {
        // Mostly all fail alike, and rank 0 speaks for all. If it is still at work, it waits for what will not come.
        std::thread::sleep(PATIENCE);
        let (rank, size) = (comm.rank(), comm.size());
        ui::complain(&format!("process {rank} of {size} failed; the state on disk can be resumed"), None);
    }
    comm.abort(i32::from(ui::fail(&error)))
}
