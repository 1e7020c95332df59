//! The host as a cognet and a kernel see it: cognets on disk, a kernel in memory.

mod air;
mod bundled;
mod escapes;
mod fake;
mod json;
mod limits;
mod load;
mod many;
mod modules;
mod sandbox;
mod types;
mod verbs;
mod wake;
mod world;
