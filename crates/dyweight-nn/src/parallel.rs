//! Work shared among the threads of the current rayon pool.
//!
//! How work is cut never changes a result: every output entry is computed by one task in an order of its own.

use std::marker::PhantomData;

use rayon::prelude::*;

/// Floats an element-wise task handles at once; small enough for the first-level cache.
pub(crate) const CHUNK: usize = 8192;

/// Runs `f` for every index, on all threads.
pub(crate) fn for_each(items: usize, f: impl Fn(usize) + Sync + Send) {
    match items {
        0 => {}
        1 => f(0),
        _ => (0..items).into_par_iter().for_each(f),
    }
}

/// A slice that tasks write to in disjoint places.
#[derive(Clone, Copy)]
pub(crate) struct Disjoint<'a> {
    ptr: *mut f32,
    len: usize,
    lifetime: PhantomData<&'a mut [f32]>,
}

// SAFETY: handing out parts is `unsafe`, with disjointness the caller's duty; the rest is plain data.
unsafe impl Send for Disjoint<'_> {}
// SAFETY: as above.
unsafe impl Sync for Disjoint<'_> {}

impl<'a> Disjoint<'a> {
    pub(crate) fn new(slice: &'a mut [f32]) -> Self {
        Self { ptr: slice.as_mut_ptr(), len: slice.len(), lifetime: PhantomData }
    }

    /// `len` floats from `start`.
    ///
    /// # Safety
    /// No two parts that overlap may be in use at the same time.
    #[allow(clippy::mut_from_ref, reason = "disjointness is the caller's contract")]
    pub(crate) unsafe fn part(&self, start: usize, len: usize) -> &'a mut [f32] {
        assert!(start + len <= self.len, "part {start}+{len} of {}", self.len);
        // SAFETY: in bounds by the assertion, exclusive by the caller's contract.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.add(start), len) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of the first float, for kernels that write rows of their own.
    pub(crate) fn ptr(&self) -> *mut f32 {
        self.ptr
    }
}
