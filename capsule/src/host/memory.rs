//! One bound for a block's heap and array buffers.

use std::{
    alloc::{self, Layout},
    ffi::c_void,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use deno_core::v8;

use super::native;
use crate::{ENGINE, Engine};

/// What the engine's own limit is above a block's, as a fraction of it. Near its own limit the engine does nothing but
/// collect, and then gives up: a block over its limit is to be found before that.
const ENGINE_MARGIN: usize = 4;

/// The limit that the engine is to know of for blocks with this one.
pub fn engine_heap_limit(limit: usize) -> usize {
    match ENGINE {
        Engine::V8 => limit + limit / ENGINE_MARGIN,
        // Says that it is near from seven eighths of it on, and may hold an eighth more.
        Engine::QuickJs => limit,
    }
}

/// The engine collects garbage and tries again up to three times before it throws: only then is memory out.
const FAILURES_BEFORE_STOP: usize = 4;

/// What the allocator calls when a block is out of memory.
pub type OnExhausted = Box<dyn Fn() + Send + Sync>;

/// Counts what a block holds.
pub struct Budget {
    limit: usize,
    heap: AtomicUsize,
    buffers: AtomicUsize,
    peak: AtomicUsize,
    failures: AtomicUsize,
    on_exhausted: OnExhausted,
}

impl Budget {
    pub fn new(limit: usize, on_exhausted: OnExhausted) -> Arc<Self> {
        Arc::new(Self {
            limit,
            heap: AtomicUsize::new(0),
            buffers: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            failures: AtomicUsize::new(0),
            on_exhausted,
        })
    }

    /// Takes the heap's size as it is now, garbage included. Whether all of it is within the limit.
    pub fn heap_is(&self, bytes: usize) -> bool {
        self.heap.store(bytes, Relaxed);
        let held = bytes + self.buffers.load(Relaxed);
        self.peak.fetch_max(held, Relaxed);
        held <= self.limit
    }

    /// Takes the heap's size after a full collection.
    fn live_heap_is(&self, bytes: usize) {
        if !self.heap_is(bytes) {
            (self.on_exhausted)();
        }
    }

    /// The most that was held at once, in bytes.
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    fn reserve(&self, bytes: usize) -> bool {
        let heap = self.heap.load(Relaxed);
        let reserved = self.buffers.try_update(Relaxed, Relaxed, |held| {
            held.checked_add(bytes).filter(|total| total.saturating_add(heap) <= self.limit)
        });
        match reserved {
            Ok(held) => {
                native::buffer_taken(bytes);
                self.failures.store(0, Relaxed);
                self.peak.fetch_max(held + bytes + heap, Relaxed);
                true
            }
            Err(_) => {
                if self.failures.fetch_add(1, Relaxed) + 1 >= FAILURES_BEFORE_STOP {
                    (self.on_exhausted)();
                }
                false
            }
        }
    }

    fn release(&self, bytes: usize) {
        native::buffer_given_back(bytes);
        self.buffers.fetch_sub(bytes, Relaxed);
    }
}

/// Has the engine tell the budget, after each collection, what the heap holds.
pub fn watch_heap(isolate: &mut v8::Isolate, budget: &Arc<Budget>) {
    // The isolate's owner keeps the budget for longer than the isolate lives.
    let data = Arc::as_ptr(budget).cast_mut().cast();
    isolate.add_gc_epilogue_callback(after_collection, data, v8::GCType::kGCTypeAll);
}

unsafe extern "C" fn after_collection(
    isolate: v8::UnsafeRawIsolatePtr,
    kind: v8::GCType,
    _flags: v8::GCCallbackFlags,
    data: *mut c_void,
) {
    // SAFETY: the engine passes the isolate that it has just collected, and the data of `watch_heap`.
    let (mut isolate, budget) = unsafe { (v8::Isolate::from_raw_isolate_ptr(isolate), &*data.cast::<Budget>()) };
    let used = isolate.get_heap_statistics().used_heap_size();
    if kind == v8::GCType::kGCTypeMarkSweepCompact {
        budget.live_heap_is(used);
    } else {
        budget.heap_is(used);
    }
}

/// An allocator for array buffers that stays within the budget.
pub fn allocator(budget: &Arc<Budget>) -> v8::UniqueRef<v8::Allocator> {
    static VTABLE: v8::RustAllocatorVtable<Budget> =
        v8::RustAllocatorVtable { allocate, allocate_uninitialized, free, drop };
    // SAFETY: the handle is an `Arc<Budget>` that `drop` gives back, and the table's functions expect just that.
    unsafe { v8::new_rust_allocator(Arc::into_raw(Arc::clone(budget)), &VTABLE) }
}

/// Stands for buffers of no bytes, which are never read.
const EMPTY: *mut c_void = ptr::without_provenance_mut(ALIGNMENT);
const ALIGNMENT: usize = 16;

fn layout(len: usize) -> Option<Layout> {
    Layout::from_size_align(len, ALIGNMENT).ok()
}

fn allocate_with(budget: &Budget, len: usize, allocate: impl FnOnce(Layout) -> *mut u8) -> *mut c_void {
    if len == 0 {
        return EMPTY;
    }
    let Some(layout) = layout(len) else { return ptr::null_mut() };
    if !budget.reserve(len) {
        return ptr::null_mut();
    }
    let data = allocate(layout);
    if data.is_null() {
        budget.release(len);
    }
    data.cast()
}

unsafe extern "C" fn allocate(budget: &Budget, len: usize) -> *mut c_void {
    // SAFETY: `allocate_with` passes a layout of at least one byte.
    allocate_with(budget, len, |layout| unsafe { alloc::alloc_zeroed(layout) })
}

unsafe extern "C" fn allocate_uninitialized(budget: &Budget, len: usize) -> *mut c_void {
    // SAFETY: `allocate_with` passes a layout of at least one byte.
    allocate_with(budget, len, |layout| unsafe { alloc::alloc(layout) })
}

unsafe extern "C" fn free(budget: &Budget, data: *mut c_void, len: usize) {
    if len == 0 || data.is_null() {
        return;
    }
    if let Some(layout) = layout(len) {
        // SAFETY: the engine gives back what `allocate` gave it for this length.
        unsafe { alloc::dealloc(data.cast(), layout) };
        budget.release(len);
    }
}

unsafe extern "C" fn drop(budget: *const Budget) {
    // SAFETY: `allocator` made this pointer with `Arc::into_raw`, and the engine drops it once.
    std::mem::drop(unsafe { Arc::from_raw(budget) });
}
