//! The bindings of a session's blocks, kept in a file: a cache beside the log, which may be deleted at any time.
//!
//! The bytes are the capsule's; the kernel does not look into them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use axon_capsule::{Bindings, ENGINE};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// No cognet's state has this name: theirs have no `@`.
const FOLDER: &str = "@bindings";

/// The first line of a file; it names the engine, for no engine reads what another has written.
fn heading() -> String {
    format!("axon bindings 1 {ENGINE}\n")
}

/// A session's file of bindings.
pub(crate) struct BindingsFile {
    path: PathBuf,
}

/// What there was to load.
#[derive(Debug)]
pub(crate) enum Loaded {
    Bindings(Bindings),
    Nothing,
    /// There is a file that cannot be used, and why.
    Unusable(String),
}

impl BindingsFile {
    /// The file of a session under `data/state`.
    pub(crate) fn of_session(state: &Path, session: &str) -> Self {
        Self { path: state.join(FOLDER).join(session) }
    }

    pub(crate) fn load(&self) -> Loaded {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Loaded::Nothing,
            Err(error) => return Loaded::Unusable(error.to_string()),
        };
        let heading = heading();
        let Some(rest) = bytes.strip_prefix(heading.as_bytes()) else {
            return Loaded::Unusable("it was written by another version or engine".to_owned());
        };
        let Some((sum, body)) = rest.split_first_chunk::<32>() else {
            return Loaded::Unusable("it is damaged".to_owned());
        };
        if Sha256::digest(body)[..] != sum[..] {
            return Loaded::Unusable("it is damaged".to_owned());
        }
        match Bindings::decode(body) {
            Ok(bindings) => Loaded::Bindings(bindings),
            Err(error) => Loaded::Unusable(error.to_string()),
        }
    }

    /// Replaces the file as a whole. It survives the death of this process; what the machine loses with its power is
    /// told when the session is opened again.
    pub(crate) fn save(&self, bindings: &Bindings) -> io::Result<()> {
        let body = bindings.encode();
        let mut bytes = heading().into_bytes();
        bytes.extend_from_slice(&Sha256::digest(&body));
        bytes.extend_from_slice(&body);
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let temporary = self.path.with_extension(format!("{}.tmp", Uuid::new_v4()));
        let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, &self.path));
        if written.is_err() {
            // The first failure is the one to tell.
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_changed_in_any_byte_is_unusable_and_never_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let file = BindingsFile::of_session(dir.path(), "session");
        assert!(matches!(file.load(), Loaded::Nothing));
        file.save(&Bindings::default()).unwrap();
        assert!(matches!(file.load(), Loaded::Bindings(bindings) if bindings.is_empty()));
        let whole = fs::read(&file.path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&file.path, &damaged).unwrap();
            assert!(matches!(file.load(), Loaded::Unusable(_)), "byte {at}");
            fs::write(&file.path, &whole[..at]).unwrap();
            assert!(matches!(file.load(), Loaded::Unusable(_)), "{at} bytes");
        }
    }
}
