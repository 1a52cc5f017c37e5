//! The allocator of a script's context.

use rquickjs::allocator::{Allocator, RustAllocator};

use crate::sandbox::ScriptDeadline;

/// The largest single allocation. The engine reads the clock once in so many steps of a script, and
/// some steps take as long as a pass over the largest text or array.
const ALLOCATION_BYTES_MAX: usize = 8 * 1024 * 1024;
/// From this size on every allocation reads the clock.
const ALLOCATION_BYTES_LARGE: usize = 64 * 1024;
/// Otherwise the clock is read once for this many allocations.
const ALLOCATIONS_PER_CHECK: u32 = 1024;

/// Grants large allocations only while a script has time left. This ends work that the engine would
/// not interrupt: compiling, parsing, joining, sorting.
pub(crate) struct TimedMemory {
    deadline: ScriptDeadline,
    allocations: u32,
}

impl TimedMemory {
    pub(crate) fn new(deadline: ScriptDeadline) -> Self {
        Self { deadline, allocations: 0 }
    }

    fn grants(&mut self, size: usize) -> bool {
        if size > ALLOCATION_BYTES_MAX {
            return false;
        }
        self.allocations = self.allocations.wrapping_add(1);
        let looks = size >= ALLOCATION_BYTES_LARGE
            || self.allocations.is_multiple_of(ALLOCATIONS_PER_CHECK);
        // Small allocations are granted even then: without them the engine could not make the error
        // that a script cannot catch.
        !(looks && self.deadline.check())
    }
}

// SAFETY: it refuses, which is allowed, or delegates to an allocator that keeps the contract.
unsafe impl Allocator for TimedMemory {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        match self.grants(size) {
            true => RustAllocator.alloc(size),
            false => std::ptr::null_mut(),
        }
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        match count.checked_mul(size) {
            Some(all) if self.grants(all) => RustAllocator.calloc(count, size),
            _ => std::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&mut self, ptr: *mut u8) {
        // SAFETY: the caller guarantees that the allocation came from here, and so from that
        // allocator.
        unsafe { RustAllocator.dealloc(ptr) }
    }

    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        match self.grants(new_size) {
            // SAFETY: as above.
            true => unsafe { RustAllocator.realloc(ptr, new_size) },
            false => std::ptr::null_mut(),
        }
    }

    unsafe fn usable_size(ptr: *mut u8) -> usize {
        // SAFETY: as above.
        unsafe { RustAllocator::usable_size(ptr) }
    }
}
