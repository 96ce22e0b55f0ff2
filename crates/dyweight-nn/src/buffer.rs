//! Memory of activations, reused instead of returned to the system.
//!
//! A dropped [`Buffer`] goes to a process-wide free list and serves a later request of up to its size, down to two
//! thirds of it. Sizes are rounded up to classes an eighth of a power of two apart. The free list never holds so much
//! that live and free memory together exceed the largest amount that was live at once by more than a quarter, or 64 MB
//! if that is more: fresh memory costs as much as a small network's normalisations.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Mutex;

const ALIGN: usize = 64;
const SMALLEST: usize = 256;
/// Floats that may be free whatever the peak.
const SPARE: usize = 1 << 24;
/// Floats from which on large pages (2 MB) are asked for.
const HUGE: usize = 1 << 20;

/// Floats aligned to cache lines. Contents of a fresh one are arbitrary (but initialised) values.
#[derive(Debug)]
pub struct Buffer {
    block: ManuallyDrop<Block>,
    len: usize,
}

/// An owned allocation of `capacity` floats.
#[derive(Debug)]
struct Block {
    ptr: NonNull<f32>,
    capacity: usize,
}

// SAFETY: a block owns plain floats; nothing about it is tied to a thread.
unsafe impl Send for Block {}
// SAFETY: shared access only reads floats.
unsafe impl Sync for Block {}

#[derive(Default)]
struct FreeList {
    blocks: BTreeMap<usize, Vec<Block>>,
    free: usize,
    live: usize,
    peak: usize,
}

static FREE_LIST: Mutex<FreeList> = Mutex::new(FreeList { blocks: BTreeMap::new(), free: 0, live: 0, peak: 0 });

/// How much memory the engine's buffers take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// In buffers that are in use.
    pub live: usize,
    /// In buffers waiting for reuse.
    pub free: usize,
    /// The largest `live` since the last [`release`].
    pub peak: usize,
}

/// How much memory the engine's buffers take now.
pub fn usage() -> Usage {
    let list = lock();
    Usage { live: list.live * 4, free: list.free * 4, peak: list.peak * 4 }
}

/// Gives all free buffers back to the system and forgets the peak.
pub fn release() {
    let mut list = lock();
    list.free = 0;
    list.peak = list.live;
    let blocks = std::mem::take(&mut list.blocks);
    drop(list);
    drop(blocks);
}

fn lock() -> std::sync::MutexGuard<'static, FreeList> {
    // A panic while holding the lock cannot leave the list half-changed in a harmful way: blocks own their memory.
    FREE_LIST.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The smallest class that holds `len` floats.
fn class_of(len: usize) -> usize {
    let len = len.max(SMALLEST);
    let step = (len.next_power_of_two() / 16).max(16);
    len.div_ceil(step) * step
}

impl FreeList {
    fn take(&mut self, class: usize) -> Option<Block> {
        let fitting = self.blocks.range(class..=class + class / 2).find(|(_, blocks)| !blocks.is_empty());
        let reused = fitting.map(|(capacity, _)| *capacity);
        let block = reused.and_then(|capacity| self.blocks.get_mut(&capacity)?.pop());
        let capacity = reused.unwrap_or(class);
        self.free -= reused.unwrap_or(0);
        self.live += capacity;
        self.peak = self.peak.max(self.live);
        while self.live + self.free > self.peak + (self.peak / 4).max(SPARE) && self.evict_largest() {}
        block
    }

    fn evict_largest(&mut self) -> bool {
        while let Some(mut entry) = self.blocks.last_entry() {
            if let Some(block) = entry.get_mut().pop() {
                self.free -= block.capacity;
                return true;
            }
            entry.remove();
        }
        false
    }
}

/// Asks for pages of 2 MB in place of 4 kB, for memory that has not been looked at yet. Rows of a product's result lie
/// a page apart each: with small pages, looking up addresses takes a fifth of the time of some. And on a virtual
/// machine two threads read such memory twice as fast.
pub fn ask_for_large_pages(memory: &mut [u8]) {
    advise(memory.as_mut_ptr(), memory.len());
}

/// The same of memory at an address. A wish: wrong addresses do no harm.
#[cfg(target_os = "linux")]
fn advise(start: *mut u8, bytes: usize) {
    const PAGE: usize = 4096;
    const MADV_HUGEPAGE: i32 = 14;
    // SAFETY: as the C library of the system declares it.
    unsafe extern "C" {
        fn madvise(address: *mut u8, bytes: usize, advice: i32) -> i32;
    }
    let skip = start.align_offset(PAGE);
    let pages = bytes.saturating_sub(skip) / PAGE * PAGE;
    // SAFETY: this changes no contents. A refusal costs nothing but speed.
    unsafe { madvise(start.wrapping_add(skip), pages, MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_: *mut u8, _: usize) {}

impl Block {
    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity * size_of::<f32>(), ALIGN).expect("an activation beyond the address space")
    }

    fn new(capacity: usize) -> Self {
        let layout = Self::layout(capacity);
        // SAFETY: the layout is never empty: classes start at `SMALLEST`.
        let ptr = unsafe { alloc(layout) };
        let ptr = NonNull::new(ptr).unwrap_or_else(|| handle_alloc_error(layout));
        if capacity >= HUGE {
            advise(ptr.as_ptr(), layout.size());
        }
        // SAFETY: as many bytes as were allocated. This is where the system provides the pages.
        unsafe { ptr.write_bytes(0, layout.size()) };
        Self { ptr: ptr.cast(), capacity }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very layout.
        unsafe { dealloc(self.ptr.as_ptr().cast(), Self::layout(self.capacity)) }
    }
}

impl Buffer {
    /// A buffer of `len` floats with arbitrary contents.
    pub fn stale(len: usize) -> Self {
        let class = class_of(len);
        let recycled = lock().take(class);
        Self { block: ManuallyDrop::new(recycled.unwrap_or_else(|| Block::new(class))), len }
    }

    /// A buffer of zeros.
    pub fn zeros(len: usize) -> Self {
        let mut buffer = Self::stale(len);
        buffer.fill(0.0);
        buffer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `self.block` is not used again.
        let block = unsafe { ManuallyDrop::take(&mut self.block) };
        let capacity = block.capacity;
        let mut list = lock();
        list.live -= capacity;
        list.free += capacity;
        list.blocks.entry(capacity).or_default().push(block);
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        let mut copy = Self::stale(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl Deref for Buffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        // SAFETY: `len ≤ capacity`, all of it initialised since allocation.
        unsafe { std::slice::from_raw_parts(self.block.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as for `deref`, and access is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.block.ptr.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_an_eighth() {
        for len in (SMALLEST..100_000).step_by(37) {
            let class = class_of(len);
            assert!(class >= len && class - len <= len / 8 + 16, "{len} -> {class}");
            assert_eq!(class_of(class), class);
        }
    }

    #[test]
    fn buffers_are_aligned_and_zeroed_on_request() {
        let mut first = Buffer::zeros(1000);
        first.fill(7.0);
        drop(first);
        let second = Buffer::zeros(1000);
        assert_eq!(second.as_ptr() as usize % ALIGN, 0);
        assert!(second.iter().all(|v| *v == 0.0) && second.len() == 1000);
    }
}
