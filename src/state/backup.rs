//! Backing up a live database, with SQLite's own backup interface (<https://sqlite.org/backup.html>).

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use super::error::{Error, Result};
use super::prune::Identity;
use super::query::find;
use super::{files, ids, integrity_problems};

/// Pages per step. Between steps nothing is locked.
const PAGES_PER_STEP: std::os::raw::c_int = 256;

/// How long to wait between two steps, so that a backup leaves the disk to whoever works.
const PAUSE: Duration = Duration::from_millis(1);

/// How long to wait for whoever has an older backup open.
const IN_USE_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the source may be locked by somebody else.
const BUSY_TIMEOUT_MS: u64 = 5_000;

/// What SQLite keeps beside a database, and the database itself.
const SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Copies the database at `live` to `destination`, whole and verified, or leaves `destination` as it was.
///
/// The copy is made beside it under another name, private from its first byte, and then renamed over it. It is the
/// database of the moment when the backup began: it reads one snapshot, so that writers neither wait nor make it start
/// again. An older backup is replaced, unless somebody has it open.
pub fn backup(live: &Path, destination: &Path) -> Result<()> {
    // through a symbolic link, as whoever opens the destination will go
    let destination = fs::canonicalize(destination).unwrap_or_else(|_| destination.to_owned());
    refuse_live(live, &destination)?;
    refuse_devices(&destination)?;
    files::create_directory(destination.parent().unwrap_or(&destination))?;
    let copy = files::with_suffix(&destination, &format!(".{}", ids::random_uuid()?));
    let result =
        copy_and_verify(live, &copy).and_then(|()| make_way(&destination)).and_then(|()| rename(&copy, &destination));
    for suffix in SUFFIXES {
        // what a success has renamed is not there any more; what a failure has left is of no use
        let _ = fs::remove_file(files::with_suffix(&copy, suffix));
    }
    result
}

/// Refuses the live database and what SQLite keeps beside it, under any name; and a destination whose own companions would
/// be one of those.
fn refuse_live(live: &Path, destination: &Path) -> Result<()> {
    for of_live in SUFFIXES.map(|suffix| files::with_suffix(live, suffix)) {
        for of_copy in SUFFIXES.map(|suffix| files::with_suffix(destination, suffix)) {
            if is_same_file(&of_live, &of_copy) {
                return Err(Error::BackupOntoItself(destination.to_owned()));
            }
        }
    }
    Ok(())
}

/// A rename would put a file in the place of whatever is there.
fn refuse_devices(destination: &Path) -> Result<()> {
    match fs::metadata(destination) {
        Ok(found) if !found.is_file() => Err(cannot_put(destination, io::Error::other("it is there and is no file"))),
        _ => Ok(()),
    }
}

/// Makes sure that nobody has the older backup open, and that nothing is left beside it: SQLite would take its log for
/// that of the new file, and play it into it.
fn make_way(destination: &Path) -> Result<()> {
    if files::has_content(destination) {
        match leave_wal(destination) {
            Err(error) if error.is_busy() => return Err(Error::BackupInUse(destination.to_owned())),
            // it is no database, or a damaged one: a replacement is all the more welcome
            Ok(()) | Err(_) => {}
        }
    }
    for suffix in SUFFIXES.iter().filter(|suffix| !suffix.is_empty()) {
        let leftover = files::with_suffix(destination, suffix);
        match fs::remove_file(&leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot_put(&leftover, error)),
            _ => {}
        }
    }
    Ok(())
}

/// SQLite leaves the write-ahead log only where no other connection is open, in any process.
fn leave_wal(path: &Path) -> Result<()> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(IN_USE_TIMEOUT)?;
    connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    Ok(())
}

fn cannot_put(path: &Path, source: io::Error) -> Error {
    Error::File { action: "put the backup at", path: path.to_owned(), source }
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
    let problems = integrity_problems(&target)?;
    if !problems.is_empty() {
        return Err(Error::Damaged(problems));
    }
    if Identity::read(&target)? != Identity::read(&source)? {
        return Err(Error::Damaged("the copy does not have the identity of the original".to_owned()));
    }
    Ok(())
}

fn rename(copy: &Path, destination: &Path) -> Result<()> {
    fs::rename(copy, destination).map_err(|source| cannot_put(destination, source))?;
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
    use crate::state::testing::open;
    use std::ffi::OsString;

    fn names(directory: &Path) -> Vec<OsString> {
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
        let state = open(&live);
        for suffix in SUFFIXES {
            let destination = files::with_suffix(&live, suffix);
            assert!(backup(&live, &destination).unwrap_err().to_string().contains("differ"), "{suffix}");
        }
        for destination in [root.path().join("./state.sqlite"), hard, soft] {
            assert!(backup(&live, &destination).unwrap_err().to_string().contains("differ"));
        }
        // its log would be the live database
        let sly = root.path().join("x-wal");
        drop(open(&sly));
        assert!(backup(&sly, &root.path().join("x")).unwrap_err().to_string().contains("differ"));
        assert_eq!(state.integrity_problems().unwrap(), "");
    }

    fn count(path: &Path) -> i64 {
        let state = open(path);
        assert_eq!(state.integrity_problems().unwrap(), "");
        state.connection().query_row("SELECT count(*) FROM blobs", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn the_log_of_an_older_backup_is_not_played_into_the_new_one() {
        let root = tempfile::tempdir().unwrap();
        let (live, destination) = (root.path().join("state.sqlite"), root.path().join("copy.sqlite"));
        let mut state = open(&live);
        backup(&live, &destination).unwrap();
        let mut older = open(&destination);
        older.write(|tx| tx.put_text("theirs", 0)).unwrap();
        // as a crash leaves it
        let log = fs::read(files::with_suffix(&destination, "-wal")).unwrap();
        drop(older);
        fs::write(files::with_suffix(&destination, "-wal"), log).unwrap();
        for index in 0..9 {
            state.write(|tx| tx.put_text(&format!("ours {index}"), 0)).unwrap();
        }
        backup(&live, &destination).unwrap();
        assert_eq!(count(&destination), 9);
    }

    #[test]
    fn an_older_backup_that_is_open_stays() {
        let root = tempfile::tempdir().unwrap();
        let (live, destination) = (root.path().join("state.sqlite"), root.path().join("copy.sqlite"));
        let state = open(&live);
        backup(&live, &destination).unwrap();
        let mut reader = open(&destination);
        let error = backup(&live, &destination).unwrap_err();
        assert!(error.to_string().contains("open"), "{error}");
        reader.write(|tx| tx.put_text("still theirs", 0)).unwrap();
        drop((reader, state));
        assert_eq!(count(&destination), 1);
        assert_eq!(names(root.path()).len(), 2, "nothing else is left");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_and_a_folder_refused() {
        let root = tempfile::tempdir().unwrap();
        let (live, target, link) =
            (root.path().join("state.sqlite"), root.path().join("elsewhere/copy.sqlite"), root.path().join("link"));
        drop(open(&live));
        fs::create_dir(target.parent().unwrap()).unwrap();
        fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        backup(&live, &link).unwrap();
        assert_eq!(count(&target), 0);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(backup(&live, target.parent().unwrap()).unwrap_err().to_string().contains("no file"));
    }
}
