//! Any text as a block's source: it is erased or refused, whatever it is.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| axon_capsule::fuzzing::typescript(source));
