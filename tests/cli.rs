//! The built binary, from outside: real files, real isolates, real crashes.

#[path = "cli/support.rs"]
mod support;

#[path = "cli/agent_folder.rs"]
mod agent_folder;
#[path = "cli/blocks.rs"]
mod blocks;
#[path = "cli/contract.rs"]
mod contract;
#[path = "cli/crash.rs"]
mod crash;
#[path = "cli/interrupt.rs"]
mod interrupt;
#[path = "cli/log.rs"]
mod log;
#[path = "cli/provider.rs"]
mod provider;
#[path = "cli/tour.rs"]
mod tour;
#[path = "cli/zero.rs"]
mod zero;
