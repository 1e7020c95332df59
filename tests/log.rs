//! The session log as a library: real files, real processes, real crashes.

#[path = "log/checking.rs"]
mod checking;
#[path = "log/crashes.rs"]
mod crashes;
#[path = "log/observing.rs"]
mod observing;
#[path = "log/reading.rs"]
mod reading;
#[path = "log/support.rs"]
mod support;
#[path = "log/tearing.rs"]
mod tearing;
#[path = "log/writing.rs"]
mod writing;
