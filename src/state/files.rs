//! What surrounds the database file: its directory, the modes, the leftovers of an older layout.
//!
//! Only `stat`, `chmod` and `mkdir` by path. The database files are never opened here: closing any descriptor on them
//! would drop the POSIX locks of the whole process (<https://sqlite.org/howtocorrupt.html>, section 2.2.1).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{Error, Result};

/// The folders and files that pi-workflows kept before it had one database.
const OLDER_FOLDERS: [&str; 3] = ["runs", "decisions", "controllers"];
const OLDER_TELEGRAM_STATE: &str = ".config/pi-workflows/telegram-state.sqlite";

/// Whether there is something at `path` that may be a database: an empty file is not one yet.
#[must_use]
pub(super) fn has_content(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.len() > 0)
}

/// Refuses to start beside the leftovers of the older layout.
pub(super) fn refuse_leftovers(path: &Path, home: &Path) -> Result<()> {
    let beside = path.parent().unwrap_or(path);
    let folder = OLDER_FOLDERS.iter().map(|name| beside.join(name)).find(|folder| folder.is_dir());
    let file = Some(home.join(OLDER_TELEGRAM_STATE)).filter(|file| file.exists());
    match folder.or(file) {
        Some(path) => Err(Error::Incompatible { path, found: "it belongs to an older layout".to_owned() }),
        None => Ok(()),
    }
}

/// Creates the directory of the database, and those above it, private. One that is there keeps its mode.
pub(super) fn create_directory(directory: &Path) -> Result<()> {
    if directory.as_os_str().is_empty() || directory.is_dir() {
        return Ok(());
    }
    if let Some(above) = directory.parent() {
        create_directory(above)?;
    }
    let failed = |source| Error::File { action: "create the directory", path: directory.to_owned(), source };
    match fs::create_dir(directory) {
        Ok(()) => set_mode(directory, 0o700).map_err(failed),
        // a rival process was faster
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Narrows the database file, its log and its index to their owner, where an earlier file or the umask says otherwise.
pub(super) fn make_private(path: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let file = with_suffix(path, suffix);
        match set_mode(&file, 0o600) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Error::File { action: "narrow the mode of", path: file, source });
            }
            _ => {}
        }
    }
    Ok(())
}

/// The name of a file that belongs to another.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    // unchanged where it is right, so that opening a file of another owner in a shared group still works
    if fs::metadata(path)?.permissions().mode() & 0o777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Windows has no modes: files inherit the access list of the user's profile.
#[cfg(not(unix))]
fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_directories_are_private_and_others_keep_their_mode() {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let root = tempfile::tempdir().unwrap();
        let shared = root.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
        let inner = shared.join("one/two");
        create_directory(&inner).unwrap();
        create_directory(&inner).unwrap();
        assert_eq!((mode(&shared), mode(&shared.join("one")), mode(&inner)), (0o755, 0o700, 0o700));
    }

    #[test]
    fn a_file_in_the_way_is_reported() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "x").unwrap();
        let error = create_directory(&file.join("inner")).unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }

    #[test]
    fn leftovers_are_named() {
        let root = tempfile::tempdir().unwrap();
        let database = root.path().join("state.sqlite");
        refuse_leftovers(&database, root.path()).unwrap();
        fs::create_dir(root.path().join("decisions")).unwrap();
        let error = refuse_leftovers(&database, root.path()).unwrap_err().to_string();
        assert!(error.contains("incompatible") && error.contains("decisions"), "{error}");
    }
}
