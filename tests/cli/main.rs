//! The built binary, from outside: real files, real isolates, real crashes.

mod agent_folder;
mod asking;
mod blocks;
mod continuous;
mod contract;
mod crash;
mod disk;
mod errors;
mod interrupt;
mod log;
mod log_commands;
mod provider;
mod support;
mod terminal;
mod tools;
mod tour;
mod typescript;
mod zero;
