//! The processes of a job under `mpirun`: joining, sharing the cores, ending together.

use crate::ui;
use dyweight::comm::{Comm, Solo};
use dyweight::{Error, Result};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How long a failed process leaves rank 0 to say the same itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where a starter says how many processes it has started: Open MPI, MPICH and Intel MPI, MVAPICH, a step of Slurm.
const SIZES: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"];

/// The most processes that a starter speaks of, and where.
fn started() -> Option<(&'static str, usize)> {
    let size = |name: &&'static str| Some((*name, std::env::var(name).ok()?.trim().parse().ok()?));
    SIZES.iter().filter_map(size).max_by_key(|(_, size)| *size)
}

/// Joins the job this process was started in; alone if it was started by hand.
#[cfg(feature = "mpi")]
pub fn join() -> Result<Arc<dyn Comm>> {
    // Each of these is set by the starters of one kind of MPI library.
    const SIGNS: [&str; 5] = ["OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"];
    let signed = SIGNS.iter().any(|sign| std::env::var_os(sign).is_some());
    let joined = signed.then(crate::mpi::Mpi::join).flatten();
    let own = joined.as_ref().map_or(1, |comm| comm.size());
    if let Some((sign, size)) = started().filter(|(_, size)| *size > 1 && own == 1) {
        return Err(several(sign, size, "start it with mpirun of the MPI it was built with, or with srun and PMIx"));
    }
    let Some(comm) = joined else { return Ok(Arc::new(Solo)) };
    let comm: Arc<dyn Comm> = Arc::new(comm);
    watch_the_next(&comm);
    Ok(comm)
}

/// Refuses to do the same work several times over.
#[cfg(not(feature = "mpi"))]
pub fn join() -> Result<Arc<dyn Comm>> {
    match started().filter(|(_, size)| *size > 1) {
        Some((sign, size)) => {
            Err(several(sign, size, "build it with: cargo build --release -p dyweight-cli --features mpi"))
        }
        None => Ok(Arc::new(Solo)),
    }
}

fn several(sign: &str, size: usize, hint: &str) -> Error {
    Error::conflict(
        format!("{size} processes were started ({sign}), but this dyweight works alone"),
        format!("{hint}; for work that is not shared, unset {sign}"),
    )
}

/// Time between two looks at another process.
#[cfg(feature = "mpi")]
const LOOK: Duration = Duration::from_secs(5);

/// Says so when the process of the next rank is stopped, if it is on this machine: all others wait for it.
#[cfg(feature = "mpi")]
fn watch_the_next(comm: &Arc<dyn Comm>) {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mine = format!("{} {}", std::process::id(), host.trim());
    let everyone = comm.all_gather_bytes(mine.as_bytes()).unwrap_or_default();
    let (next, size) = ((comm.rank() + 1) % comm.size(), comm.size());
    let found = everyone.get(next).and_then(|bytes| std::str::from_utf8(bytes).ok()?.split_once(' '));
    let Some((pid, _)) = found.filter(|(_, other)| size > 1 && *other == host.trim()) else { return };
    let pid = pid.to_string();
    std::thread::spawn(move || {
        let mut said = false;
        loop {
            std::thread::sleep(LOOK);
            let stopped = is_stopped(&pid);
            if stopped != said {
                let how = if stopped { "is stopped: the others wait for it" } else { "goes on" };
                ui::note(&format!("process {next} of {size} (number {pid} here) {how}"));
            }
            said = stopped;
        }
    });
}

/// True of a process that a signal or a debugger has stopped.
#[cfg(feature = "mpi")]
fn is_stopped(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['T', 't']))
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
