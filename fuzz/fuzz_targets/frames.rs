//! Any bytes as what the capsule's two ends send each other.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| axon_capsule::fuzzing::frames(bytes));
