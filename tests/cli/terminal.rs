//! The program at a terminal: a pseudo-terminal with a test at its other end.

use std::{
    fs::File,
    io::{Read, Write},
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use crate::support::until;

pub struct Terminal {
    child: Child,
    keys: File,
    screen: Arc<Mutex<String>>,
    /// Ends with the last of what the program shows.
    reader: Option<thread::JoinHandle<()>>,
    /// What was looked at before.
    seen: usize,
}

impl Terminal {
    /// Starts the program with a terminal of its own as its standard streams.
    pub fn start(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&master).expect("its other end is ours");
        unlockpt(&master).expect("its other end opens");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("its other end");
        let stream = || Stdio::from(slave.try_clone().expect("a copy"));
        command.stdin(stream()).stdout(stream()).stderr(stream()).env("NO_COLOR", "1");
        // SAFETY: two system calls between fork and exec.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                Ok(rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?)
            });
        }
        let child = command.spawn().expect("axon starts");
        // The command holds copies of the other end.
        drop((command, slave));
        let screen = Arc::<Mutex<String>>::default();
        let mut output = File::from(master);
        let keys = output.try_clone().expect("a copy");
        let shown = screen.clone();
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Ends with an error when nobody has the other end open.
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        Self { child, keys, screen, reader: Some(reader), seen: 0 }
    }

    /// Waits until the screen shows a text after what was seen before, and gives what came until then.
    pub fn shows(&mut self, text: &str) -> String {
        let (seen, screen) = (self.seen, self.screen.clone());
        let end = until(text, move || {
            let screen = screen.lock().unwrap();
            screen[seen..].find(text).map(|at| seen + at + text.len())
        });
        self.seen = end;
        self.screen.lock().unwrap()[seen..end].replace('\r', "")
    }

    pub fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Waits for the end and gives everything that was shown.
    pub fn ends(mut self) -> (ExitStatus, String) {
        let status = until("the end", || self.child.try_wait().expect("it is our child"));
        if let Some(reader) = self.reader.take() {
            reader.join().expect("it only reads");
        }
        (status, self.screen.lock().unwrap().replace('\r', ""))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
