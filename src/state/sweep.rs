//! Pruning in the background: a thread that now and then removes old values that nothing points to.
//!
//! It never makes anybody wait for long. What is pointed to is collected from a snapshot, without any lock; what is left is
//! deleted in small batches, and each batch is checked again inside its own write transaction, so that whoever has begun to
//! point to one of them meanwhile, with whichever code, keeps it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, InterruptHandle, params};

use super::error::{Error, Result};
use super::prune::{self, GRACE_MS};
use super::query::{execute, find};
use super::time::wall_clock_ms;
use super::transaction::write;

/// A process that has stored so many new values looks for old ones.
const STORED_PER_SWEEP: usize = 1_000;

/// A file that was last swept so long ago is swept by the next process that writes.
const SWEEP_AFTER_MS: i64 = 3_600_000;

/// Values per batch: a few milliseconds of the write lock.
const BATCH: i64 = 500;

/// A pause after each batch, so that whoever waits gets the lock.
const PAUSE: Duration = Duration::from_millis(20);

const COLLECT: &str = "INSERT INTO temp.old SELECT blob_hash FROM main.blobs
  WHERE created_at <= ? AND blob_hash NOT IN (SELECT hash FROM temp.referenced)";

const TAKE_BATCH: &str = "INSERT INTO temp.batch SELECT hash FROM temp.old LIMIT ?";

const FORGET_BATCH: &str = "DELETE FROM temp.old WHERE hash IN (SELECT hash FROM temp.batch)";

const DELETE_BATCH: &str =
    "DELETE FROM main.blobs WHERE blob_hash IN (SELECT hash FROM temp.batch) AND created_at <= ?";

/// When the file was last swept, kept in `schema_meta.updated_at`.
const SWEPT_AT: &str = "SELECT updated_at FROM schema_meta WHERE id = 1";
const MARK_SWEPT: &str = "UPDATE schema_meta SET updated_at = ? WHERE id = 1";

/// Decides when to sweep, and stops a sweep when its database closes.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    stored: usize,
    has_looked: bool,
    running: Option<Running>,
}

struct Running {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    interrupt: InterruptHandle,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Running").finish_non_exhaustive()
    }
}

impl Sweeper {
    /// Counts what a committed call has stored; starts a sweep when it is time. It costs a call nothing but a comparison.
    pub(super) fn stored(&mut self, new_values: usize, connection: &Connection, path: &Path) {
        self.stored += new_values;
        let is_time = self.stored >= STORED_PER_SWEEP || (!self.has_looked && new_values > 0 && is_overdue(connection));
        self.has_looked |= new_values > 0;
        if !is_time
            || !connection.is_autocommit()
            || self.running.as_ref().is_some_and(|running| !running.thread.is_finished())
        {
            return;
        }
        self.stored = 0;
        // a sweep that cannot start is tried again after as many values: nothing depends on it
        self.running = start(path).ok();
    }
}

impl Drop for Sweeper {
    /// Stops a sweep and waits for it: a closed database keeps no descriptor of the file.
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop.store(true, Ordering::Relaxed);
            while !running.thread.is_finished() {
                // again and again: an interrupt between two statements stops neither
                running.interrupt.interrupt();
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = running.thread.join();
        }
    }
}

fn is_overdue(connection: &Connection) -> bool {
    let swept = find(connection, SWEPT_AT, [], |row| Ok::<_, Error>(row.get::<_, i64>(0)?));
    matches!(swept, Ok(Some(at)) if at < wall_clock_ms() - SWEEP_AFTER_MS)
}

fn start(path: &Path) -> Result<Running> {
    let path = PathBuf::from(path);
    let connection = prune::connect(&path)?;
    let interrupt = connection.get_interrupt_handle();
    let stop = Arc::new(AtomicBool::new(false));
    let thread = std::thread::Builder::new()
        .name("pi-workflows-sweep".to_owned())
        .spawn({
            let stop = Arc::clone(&stop);
            move || {
                // its errors concern nobody: a busy or vanished file is swept another time. A panic must not end the process.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    sweep(&connection, &stop, wall_clock_ms() - GRACE_MS)
                }));
            }
        })
        .map_err(|source| Error::File { action: "start a thread for", path, source })?;
    Ok(Running { thread, stop, interrupt })
}

/// Removes the values from before `cutoff` that nothing points to; gives their number.
fn sweep(connection: &Connection, stop: &AtomicBool, cutoff: i64) -> Result<usize> {
    connection.execute_batch(
        "CREATE TEMP TABLE old(hash BLOB PRIMARY KEY) WITHOUT ROWID;
         CREATE TEMP TABLE batch(hash BLOB PRIMARY KEY) WITHOUT ROWID;
         BEGIN",
    )?;
    // one snapshot for all of this; nobody waits for a reader
    let last_event =
        find(connection, "SELECT max(event_seq) FROM events", [], |row| Ok::<_, Error>(row.get::<_, Option<i64>>(0)?))?;
    let last_event = last_event.flatten().unwrap_or(0);
    prune::collect_referenced(connection)?;
    execute(connection, COLLECT, [cutoff])?;
    connection.execute_batch("DELETE FROM temp.referenced; COMMIT")?;

    let mut removed = 0;
    while !stop.load(Ordering::Relaxed) {
        execute(connection, "DELETE FROM temp.batch", [])?;
        if execute(connection, TAKE_BATCH, [BATCH])? == 0 {
            write(connection, |tx| tx.execute(MARK_SWEPT, params![wall_clock_ms()]))?;
            break;
        }
        execute(connection, FORGET_BATCH, [])?;
        let started = Instant::now();
        removed += write(connection, |tx| {
            keep_what_is_wanted_again(tx, last_event)?;
            tx.execute(DELETE_BATCH, [cutoff])
        })?;
        std::thread::sleep(PAUSE.max(started.elapsed()));
    }
    Ok(removed)
}

/// Takes out of the batch what something has come to point to since the snapshot.
///
/// Events only come in at the end and never change, so only the new ones are looked at.
fn keep_what_is_wanted_again(connection: &Connection, last_event: i64) -> Result<()> {
    for (table, column) in prune::references(connection)? {
        let since = if table == "events" { "AND event_seq > ?1" } else { "AND ?1 IS NOT NULL" };
        let (table, column) = (prune::quoted(&table), prune::quoted(&column));
        execute(
            connection,
            &format!(
                "DELETE FROM temp.batch WHERE hash IN
                   (SELECT {column} FROM main.{table} WHERE {column} IS NOT NULL {since})"
            ),
            [last_event],
        )?;
    }
    Ok(())
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

    fn texts(state: &State) -> Vec<String> {
        let mut statement =
            state.connection().prepare("SELECT CAST(content AS TEXT) FROM blobs ORDER BY rowid").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn old_values_go_and_young_and_wanted_ones_stay() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.sqlite");
        let mut state = open(&path);
        state
            .write(|tx| {
                let wanted = tx.put_text("wanted", 0)?;
                tx.put_text("old", 0)?;
                tx.put_text("young", 100)?;
                tx.execute("INSERT INTO workflow_definitions VALUES (?, 'w', ?, 0)", params![wanted, wanted])
            })
            .unwrap();
        let removed = sweep(&prune::connect(&path).unwrap(), &AtomicBool::new(false), 50).unwrap();
        assert_eq!((removed, texts(&state)), (1, vec!["wanted".to_owned(), "young".to_owned()]));
        assert_eq!(state.integrity_problems().unwrap(), "");
    }

    #[test]
    fn a_value_that_is_wanted_again_stays_whoever_wants_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.sqlite");
        let mut state = open(&path);
        let hash = state.write(|tx| tx.put_text("again", 0)).unwrap();
        let own = prune::connect(&path).unwrap();
        own.execute_batch("CREATE TEMP TABLE batch(hash BLOB PRIMARY KEY) WITHOUT ROWID").unwrap();
        execute(&own, "INSERT INTO temp.batch VALUES (?)", [hash]).unwrap();
        state
            .write(|tx| {
                tx.execute("INSERT INTO resources VALUES ('r', 'run', 'r', 1, 0, 0)", [])?;
                tx.execute("INSERT INTO events VALUES (7, 'e', 'r', 1, 't', 'system', NULL, NULL, ?, 0)", [hash])
            })
            .unwrap();
        let left = |after: i64| -> i64 {
            keep_what_is_wanted_again(&own, after).unwrap();
            own.query_row("SELECT count(*) FROM temp.batch", [], |row| row.get(0)).unwrap()
        };
        assert_eq!(left(7), 1, "that event was in the snapshot");
        assert_eq!(left(6), 0);
    }

    #[test]
    fn a_file_that_was_not_swept_for_long_is_swept_in_the_background() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.sqlite");
        let mut state = open(&path);
        state.connection().execute_batch("UPDATE schema_meta SET updated_at = 0").unwrap();
        for index in 0..3_000 {
            state
                .connection()
                .execute(
                    "INSERT INTO blobs VALUES (CAST('0000000000000000000000000000' || ? AS BLOB), 'text/plain', 1, x'00', 0)",
                    [format!("{index:04}")],
                )
                .unwrap();
        }
        state.write(|tx| tx.put_text("young", wall_clock_ms())).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while texts(&state).len() > 1 && Instant::now() < deadline {
            // a writer at work all the while is never refused
            state.write(|tx| tx.execute("UPDATE schema_meta SET app_version = app_version", [])).unwrap();
        }
        assert_eq!(texts(&state), ["young"]);
    }

    #[test]
    fn closing_stops_a_sweep() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.sqlite");
        let mut state = open(&path);
        state.connection().execute_batch("UPDATE schema_meta SET updated_at = 0").unwrap();
        state.write(|tx| tx.put_text("young", wall_clock_ms())).unwrap();
        drop(state);
        assert!(!path.with_extension("sqlite-wal").exists(), "the last connection is closed");
    }
}
