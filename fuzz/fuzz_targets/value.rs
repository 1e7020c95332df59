//! Any JSON as a tool's argument or result: it crosses unchanged or is refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|json: &[u8]| axon_capsule::fuzzing::value(json));
