//! The session log as a library: real files, real processes, real crashes.

mod checking;
mod crashes;
mod folding;
mod observing;
mod oddities;
mod reading;
mod support;
mod tearing;
mod writing;
