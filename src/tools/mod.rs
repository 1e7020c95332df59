//! Tools: what a block can ask the kernel to do.
//!
//! Every call takes one path through a [`Toolbox`]: it is looked up in the table of members, judged by policy, put
//! into the log, executed and answered. What a member is called, how TypeScript sees it, which grants it needs and
//! which function serves it stand once, in that table.

mod args;
mod fault;
mod fs;
mod http;
mod journal;
mod limits;
mod observer;
mod own;
mod process;
mod rules;
mod scope;
mod stop;
mod table;
mod toolbox;

pub use observer::{ToolObserver, Unobserved};
pub use own::{OwnGrants, OwnSettings, OwnTools, OwnToolsError};
pub(crate) use rules::refuse_impossible;
pub use scope::tool_declarations;
pub use toolbox::Toolbox;
