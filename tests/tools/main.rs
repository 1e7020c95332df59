//! The tools and their policy, through the one path that a block's calls take.

mod approval;
mod escapes;
mod files;
mod hostile;
mod journal;
mod scope;
mod searching;
mod support;
