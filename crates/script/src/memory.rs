//! Where the memory of a script's world comes from.

use rquickjs::allocator::{Allocator, RustAllocator};

use crate::sandbox::Watch;

/// The largest single piece. The engine looks at the clock once in so many steps of a script, and
/// some steps take as long as the largest text or array takes to walk.
const PIECE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// From this size on every piece is a reason to look at the clock.
const PIECE_BYTES_LARGE: usize = 64 * 1024;
/// Otherwise one look for so many pieces.
const PIECES_PER_LOOK: u32 = 1024;

/// Gives much memory only for as long as a script has time, which ends what the engine would not
/// interrupt: compiling, parsing, joining, sorting.
pub(crate) struct TimedMemory {
    watch: Watch,
    pieces: u32,
}

impl TimedMemory {
    pub(crate) fn new(watch: Watch) -> Self {
        Self { watch, pieces: 0 }
    }

    fn grants(&mut self, size: usize) -> bool {
        if size > PIECE_BYTES_MAX {
            return false;
        }
        self.pieces = self.pieces.wrapping_add(1);
        let looks = size >= PIECE_BYTES_LARGE || self.pieces.is_multiple_of(PIECES_PER_LOOK);
        // What is small is given even then: without it the engine could not make the error that a
        // script can't catch.
        !(looks && self.watch.check())
    }
}

// SAFETY: it refuses, which is allowed, or leaves it to an allocator that keeps the contract.
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
        // SAFETY: the caller promises that the piece came from here, and so from there.
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
