//! The tools and their policy, through the one path that a block's calls take.

mod approval;
mod escapes;
mod files;
mod hostile;
mod http;
mod journal;
mod own;
mod process;
mod scope;
mod searching;
mod support;
mod web;
