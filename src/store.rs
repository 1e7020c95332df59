//! Private key-value state of cognets: a cache over the log that may be deleted at any time.
//!
//! One file of JSON for each key in `data/state/<cognet>/`, replaced as a whole: a reader sees the old value or the new
//! one, also after a crash. Instances of one agent share it; the last write wins.

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::json::{MAX_NESTING, nests_deeper_than};

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 512;

/// The largest value as JSON, in bytes.
pub const MAX_VALUE_BYTES: usize = 16 * 1024 * 1024;

/// File systems allow a name 255 bytes.
const MAX_NAME_BYTES: usize = 200;

/// A temporary file of this age was left by a crash.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

const TEMPORARY_PREFIX: &str = ".tmp-";

/// Why a value could not be kept.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the key starting {start:?} has {bytes} bytes; a key has at most {MAX_KEY_BYTES}")]
    KeyInvalid { start: String, bytes: usize },
    #[error("the value of {key:?} is more than {MAX_VALUE_BYTES} bytes of JSON; split it over several keys")]
    ValueTooLarge { key: String },
    #[error("the value of {key:?} nests lists and objects deeper than {MAX_NESTING} levels; flatten it")]
    ValueTooDeep { key: String },
    #[error("the value of {key:?} could not be kept in {}: {cause}", dir.display())]
    Io { key: String, dir: PathBuf, cause: Arc<io::Error> },
}

impl StoreError {
    /// What the cognet sees as `code`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::KeyInvalid { .. } => "STORE_KEY_INVALID",
            Self::ValueTooLarge { .. } | Self::ValueTooDeep { .. } => "STORE_VALUE_TOO_LARGE",
            Self::Io { .. } => "STORE_IO",
        }
    }
}

/// The state of one cognet.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// The state kept in `dir`, which is made when it is first needed.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The state of the cognet `name` under `state` (`data/state`). Any string is a name.
    pub fn of_cognet(state: &Path, name: &str) -> Self {
        Self::new(state.join(encode(name)))
    }

    /// The value of a key; `None` when it is absent or unreadable.
    ///
    /// # Errors
    /// [`StoreError::KeyInvalid`].
    pub fn get(&self, key: &str) -> Result<Option<Value>, StoreError> {
        let path = self.path(key)?;
        Ok(fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Sets the value of a key and settles once it is on the disk.
    ///
    /// # Errors
    /// Any [`StoreError`]. The old value stands then.
    pub async fn set(&self, key: &str, value: Value) -> Result<(), StoreError> {
        let path = self.path(key)?;
        let failed =
            |cause: io::Error| StoreError::Io { key: key.to_owned(), dir: self.dir.clone(), cause: Arc::new(cause) };
        let json = json(key, &value)?;
        let dir = self.dir.clone();
        let written = tokio::task::spawn_blocking(move || replace(&dir, &path, &json)).await;
        written.map_err(io::Error::other).and_then(|written| written).map_err(failed)
    }

    fn path(&self, key: &str) -> Result<PathBuf, StoreError> {
        check_key(key)?;
        Ok(self.dir.join(encode(key) + ".json"))
    }
}

/// A store that is gone with the process, with the limits of the other.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    values: HashMap<String, (Value, usize)>,
    bytes: usize,
}

/// What a [`MemoryStore`] holds at most, in bytes of JSON.
const MAX_MEMORY_BYTES: usize = 256 * 1024 * 1024;

impl MemoryStore {
    pub(crate) fn get(&self, key: &str) -> Result<Option<Value>, StoreError> {
        check_key(key)?;
        Ok(self.values.get(key).map(|(value, _)| value.clone()))
    }

    pub(crate) fn set(&mut self, key: String, value: Value) -> Result<(), StoreError> {
        check_key(&key)?;
        let bytes = json(&key, &value)?.len();
        let old = self.values.get(&key).map_or(0, |(_, bytes)| *bytes);
        if self.bytes - old + bytes > MAX_MEMORY_BYTES {
            return Err(StoreError::ValueTooLarge { key });
        }
        self.bytes = self.bytes - old + bytes;
        self.values.insert(key, (value, bytes));
        Ok(())
    }
}

fn check_key(key: &str) -> Result<(), StoreError> {
    if key.len() > MAX_KEY_BYTES {
        let start = key.chars().take(40).collect();
        return Err(StoreError::KeyInvalid { start, bytes: key.len() });
    }
    Ok(())
}

/// A value as it is kept.
fn json(key: &str, value: &Value) -> Result<Vec<u8>, StoreError> {
    // It could not be read again.
    if nests_deeper_than(value, MAX_NESTING) {
        return Err(StoreError::ValueTooDeep { key: key.to_owned() });
    }
    let mut json = Limited(Vec::new());
    serde_json::to_writer(&mut json, value).map_err(|_| StoreError::ValueTooLarge { key: key.to_owned() })?;
    Ok(json.0)
}

/// JSON that may not grow beyond [`MAX_VALUE_BYTES`].
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_VALUE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn replace(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    if !dir.is_dir() {
        fs::create_dir_all(dir)?;
        dir.parent().map_or(Ok(()), sync_dir)?;
    }
    remove_abandoned(dir);
    let temporary = dir.join(format!("{TEMPORARY_PREFIX}{}", uuid::Uuid::new_v4()));
    let written = write_synced(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first failure is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written.and_then(|()| sync_dir(dir))
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}

/// Removes what writers left that were killed between writing and renaming.
fn remove_abandoned(dir: &Path) {
    let Ok(files) = fs::read_dir(dir) else { return };
    for file in files.flatten() {
        let is_temporary = file.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX);
        let written = || file.metadata().and_then(|metadata| metadata.modified());
        if is_temporary
            && written().is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > ABANDONED))
        {
            let _ = fs::remove_file(file.path());
        }
    }
}

/// A file name for any string, a different one for each, also where the file system ignores case.
///
/// Lower-case letters, digits, `-`, `_` and inner `.` stay; other bytes become `%xx`. `%` alone stands for the empty
/// string, `%%` begins the hash of a string that would be too long.
fn encode(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte.into()),
            b'.' if position > 0 && position + 1 < text.len() => name.push('.'),
            _ => push_hex(&mut name, "%", byte),
        }
    }
    if name.is_empty() {
        name.push('%');
    }
    if name.len() > MAX_NAME_BYTES {
        name = "%%".to_owned();
        for byte in Sha256::digest(text) {
            push_hex(&mut name, "", byte);
        }
    }
    name
}

fn push_hex(name: &mut String, before: &str, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(name, "{before}{byte:02x}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;

    fn store() -> (TempDir, Store) {
        let dir = TempDir::new().unwrap();
        let store = Store::of_cognet(dir.path(), "@axon/zero");
        (dir, store)
    }

    #[tokio::test]
    async fn any_string_is_a_key_and_none_leaves_the_folder() {
        let (dir, store) = store();
        let keys = ["", "%", ".", "..", "../x", "/etc/passwd", "a\0b", "A", "a", "ä", "con", "a/b", "a.json", ".tmp-1"];
        let long = ["x".repeat(512), "X".repeat(512), "X".repeat(511)];
        let keys: Vec<&str> = keys.into_iter().chain(long.iter().map(String::as_str)).collect();
        for (n, key) in keys.iter().enumerate() {
            store.set(key, json!(n)).await.unwrap();
        }
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(store.get(key).unwrap(), Some(json!(n)), "{key:?}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(&store.dir).unwrap().count(), keys.len());
    }

    #[tokio::test]
    async fn the_last_write_wins_and_a_refused_one_changes_nothing() {
        let (_dir, store) = store();
        store.set("k", json!({"a": [1, null]})).await.unwrap();
        store.set("k", json!("new")).await.unwrap();
        let error = store.set("k", json!("x".repeat(MAX_VALUE_BYTES - 1))).await.unwrap_err();
        assert_eq!(error.code(), "STORE_VALUE_TOO_LARGE");
        assert_eq!(store.get("k").unwrap(), Some(json!("new")));
        store.set("k", json!("x".repeat(MAX_VALUE_BYTES - 2))).await.unwrap();
    }

    #[tokio::test]
    async fn a_value_that_could_not_be_read_again_is_refused() {
        let (_dir, store) = store();
        let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        store.set("k", nested(MAX_NESTING)).await.unwrap();
        assert_eq!(store.get("k").unwrap(), Some(nested(MAX_NESTING)));
        let error = store.set("k", nested(MAX_NESTING + 1)).await.unwrap_err();
        assert_eq!(error.code(), "STORE_VALUE_TOO_LARGE");
        assert_eq!(store.get("k").unwrap(), Some(nested(MAX_NESTING)));
    }

    #[tokio::test]
    async fn a_key_that_is_too_long_is_refused() {
        let (_dir, store) = store();
        let key = "k".repeat(MAX_KEY_BYTES + 1);
        assert_eq!(store.get(&key).unwrap_err().code(), "STORE_KEY_INVALID");
        assert_eq!(store.set(&key, Value::Null).await.unwrap_err().code(), "STORE_KEY_INVALID");
    }

    #[tokio::test]
    async fn what_is_absent_or_unreadable_is_none() {
        let (_dir, store) = store();
        assert_eq!(store.get("k").unwrap(), None);
        store.set("k", json!(1)).await.unwrap();
        fs::write(store.path("k").unwrap(), b"{\"half").unwrap();
        assert_eq!(store.get("k").unwrap(), None);
        fs::remove_dir_all(&store.dir).unwrap();
        assert_eq!(store.get("k").unwrap(), None);
        store.set("k", json!(2)).await.unwrap();
        assert_eq!(store.get("k").unwrap(), Some(json!(2)));
    }

    #[tokio::test]
    async fn a_failed_write_says_where_and_leaves_no_file() {
        let (dir, _) = store();
        let file = dir.path().join("file");
        fs::write(&file, b"").unwrap();
        let error = Store::new(file.clone()).set("k", json!(1)).await.unwrap_err();
        assert_eq!(error.code(), "STORE_IO");
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    }

    #[tokio::test]
    async fn what_a_killed_writer_left_is_removed_once_it_is_old() {
        let (_dir, store) = store();
        store.set("k", json!(1)).await.unwrap();
        let (old, fresh) = (store.dir.join(".tmp-old"), store.dir.join(".tmp-fresh"));
        File::create(&old).unwrap().set_modified(SystemTime::now() - 2 * ABANDONED).unwrap();
        File::create(&fresh).unwrap();
        store.set("k", json!(2)).await.unwrap();
        assert!(!old.exists() && fresh.exists());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn concurrent_writers_leave_one_whole_value() {
        let (_dir, store) = store();
        let writers = (0..16).map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.set("k", json!([n.to_string().repeat(10_000)])).await })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap().unwrap();
        }
        assert!(store.get("k").unwrap().is_some());
        assert_eq!(fs::read_dir(&store.dir).unwrap().count(), 1);
    }

    proptest! {
        #[test]
        fn two_strings_never_share_a_name(a in "\\PC{0,80}|[a-zA-Z%./]{0,8}", b in "\\PC{0,80}|[a-zA-Z%./]{0,8}") {
            let (left, right) = (encode(&a).to_lowercase(), encode(&b).to_lowercase());
            prop_assert_eq!(a == b, left == right);
            prop_assert!(left.len() <= MAX_NAME_BYTES && !left.contains(['/', '\\', '\0']) && !left.starts_with('.'));
        }
    }
}
