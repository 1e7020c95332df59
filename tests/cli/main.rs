//! The built binary, from outside: real files, real isolates, real crashes.

mod agent_folder;
mod asking;
mod blocks;
mod configuration;
mod continuous;
mod contract;
mod conversation;
mod cookbook;
mod crash;
mod dev;
mod disk;
mod documents;
mod errors;
mod fidelity;
mod interrupt;
mod log;
mod log_commands;
mod minds;
mod notebook;
mod provider;
mod support;
mod terminal;
mod tools;
mod tour;
mod typescript;
mod zero;
