//! What all targets share: counts of the memory and the time a reader takes, and the bounds on them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with a count of live bytes and their highest number.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn grown(size: usize) {
    PEAK.fetch_max(LIVE.fetch_add(size, Relaxed) + size, Relaxed);
}

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_sub(layout.size(), Relaxed);
        grown(size);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// What a reader may hold beyond the file itself.
const MOST: usize = 100 << 20;
/// Seconds of processor time a reader may take. Wall time would blame a reader for what else the machine is doing.
const LONGEST: f64 = 1.0;

/// Runs a reader and panics if it ever held more than [`MOST`] bytes beyond those of the file, or took [`LONGEST`].
pub fn bounded(file: &[u8], read: impl FnOnce()) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let start = processor_seconds();
    read();
    let took = processor_seconds() - start;
    let held = PEAK.load(Relaxed).saturating_sub(before);
    assert!(held <= file.len() + MOST, "{held} bytes held for a file of {} bytes", file.len());
    assert!(took <= LONGEST, "{took} seconds for a file of {} bytes", file.len());
}

/// Processor time of this thread.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on Linux, and the pointer is to a timespec of this frame.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

/// A message must be printable whatever the file put into it.
pub fn shown<T, E: std::fmt::Display>(outcome: Result<T, E>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && text.len() < 1 << 16, "a message of {} bytes", text.len());
            None
        }
    }
}

/// A folder of this process's own in memory, for readers that take names.
pub fn place() -> std::path::PathBuf {
    let folder = std::path::PathBuf::from(format!("/dev/shm/dyweight-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder in memory");
    folder
}
