//! Axon hosts cognets: agent brains written as Luau scripts, each given only a table of seven verbs.

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod config;
pub mod engine;
pub mod log;
pub mod policy;
pub mod store;
pub mod tools;
