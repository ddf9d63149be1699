//! Backing up a live database, with SQLite's own backup interface (<https://sqlite.org/backup.html>).

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use super::error::{Error, Result};
use super::query::find;
use super::{files, ids, integrity_problems};

/// Pages per step. Between steps nothing is locked.
const PAGES_PER_STEP: std::os::raw::c_int = 256;

/// How long to wait between two steps, so that a backup leaves the disk to whoever works.
const PAUSE: Duration = Duration::from_millis(1);

/// How long the source may be locked by somebody else.
const BUSY_TIMEOUT_MS: u64 = 5_000;

/// Copies the database at `live` to `destination`, whole and verified, or leaves `destination` as it was.
///
/// The copy is made beside it under another name, private from its first byte, and then renamed over it. It is the
/// database of the moment when the backup began: it reads one snapshot, so that writers neither wait nor make it start
/// again.
pub fn backup(live: &Path, destination: &Path) -> Result<()> {
    if is_same_file(live, destination) {
        return Err(Error::BackupOntoItself(destination.to_owned()));
    }
    files::create_directory(destination.parent().unwrap_or(destination))?;
    let copy = files::with_suffix(destination, &format!(".{}", ids::random_uuid()?));
    let result = copy_and_verify(live, &copy).and_then(|()| rename(&copy, destination));
    for suffix in ["", "-journal", "-wal", "-shm"] {
        // what a success has renamed is not there any more; what a failure has left is of no use
        let _ = fs::remove_file(files::with_suffix(&copy, suffix));
    }
    result
}

fn copy_and_verify(live: &Path, copy: &Path) -> Result<()> {
    let source = Connection::open_with_flags(live, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    source.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
    // the snapshot begins with the first read
    source.execute_batch("BEGIN")?;
    find(&source, "SELECT count(*) FROM sqlite_schema", [], |_| Ok::<_, Error>(()))?;
    let mut target = Connection::open_with_flags(
        copy,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    files::make_private(copy)?;
    Backup::new(&source, &mut target)?.run_to_completion(PAGES_PER_STEP, PAUSE, None)?;
    match integrity_problems(&target)? {
        problems if problems.is_empty() => Ok(()),
        problems => Err(Error::Damaged(problems)),
    }
}

fn rename(copy: &Path, destination: &Path) -> Result<()> {
    fs::rename(copy, destination).map_err(|source| Error::File {
        action: "put the backup at",
        path: destination.to_owned(),
        source,
    })?;
    // the new name has to survive a power failure, too; not every file system can promise that
    if let Some(Ok(directory)) = destination.parent().map(fs::File::open) {
        let _ = directory.sync_all();
    }
    Ok(())
}

/// Whether both names lead to one file: another spelling, a symbolic or a hard link.
#[cfg(unix)]
fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => one == other,
    }
}

#[cfg(not(unix))]
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Mode, Options, Schema, State};

    fn open(path: &Path) -> State {
        State::open(Options {
            path: path.to_owned(),
            mode: Mode::ReadWrite,
            leftovers_home: None,
            schema: Schema::BuiltIn,
        })
        .unwrap()
    }

    fn names(directory: &Path) -> Vec<std::ffi::OsString> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_live_database_is_copied_while_it_is_written() {
        let root = tempfile::tempdir().unwrap();
        let live = root.path().join("state.sqlite");
        let mut state = open(&live);
        state.write(|tx| tx.put_text("before", 0)).unwrap();
        let destination = root.path().join("copies/copy.sqlite");
        let writer = std::thread::spawn({
            let live = live.clone();
            move || {
                let mut rival = open(&live);
                for index in 0..50 {
                    rival.write(|tx| tx.put_text(&format!("during {index}"), 0)).unwrap();
                }
            }
        });
        backup(&live, &destination).unwrap();
        writer.join().unwrap();
        assert_eq!(names(destination.parent().unwrap()), ["copy.sqlite"]);
        let copy = open(&destination);
        assert_eq!(copy.integrity_problems().unwrap(), "");
        let kept: i64 = copy
            .connection()
            .query_row("SELECT count(*) FROM blobs WHERE content = CAST('before' AS BLOB)", [], |row| row.get(0))
            .unwrap();
        assert_eq!(kept, 1);
    }

    #[test]
    fn a_failure_leaves_the_destination_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        let live = root.path().join("state.sqlite");
        fs::write(&live, "no database").unwrap();
        let destination = root.path().join("copies/copy.sqlite");
        fs::create_dir(destination.parent().unwrap()).unwrap();
        fs::write(&destination, "an older backup").unwrap();
        backup(&live, &destination).unwrap_err();
        assert_eq!(fs::read(&destination).unwrap(), b"an older backup");
        assert_eq!(names(destination.parent().unwrap()), ["copy.sqlite"]);
    }

    #[cfg(unix)]
    #[test]
    fn the_live_database_is_no_destination_under_any_name() {
        let root = tempfile::tempdir().unwrap();
        let live = root.path().join("state.sqlite");
        drop(open(&live));
        let (hard, soft) = (root.path().join("hard"), root.path().join("soft"));
        fs::hard_link(&live, &hard).unwrap();
        std::os::unix::fs::symlink(&live, &soft).unwrap();
        for destination in [live.clone(), root.path().join("./state.sqlite"), hard, soft] {
            assert!(backup(&live, &destination).unwrap_err().to_string().contains("differ"));
        }
    }
}
