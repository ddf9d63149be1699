//! Pruning in the background, so that blobs do not pile up although nobody asks for it.
//!
//! A thread is started by a write when enough has been stored since the last pruning, or when nobody has pruned the file for
//! an hour, and ends when it is done: a process that only reads never has one. It works on a connection of its own, in batches of a few
//! milliseconds. Closing the database stops it and waits for it, so that nothing holds the file open afterwards.
//!
//! Several processes may do it at once: whoever comes second finds less to do.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, InterruptHandle};

use super::error::Error;
use super::own_blobs::OwnBlobs;
use super::prune::{IN_THE_BACKGROUND, Identity, Pruning};
use super::query::find;
use super::time::wall_clock_ms;

/// So many new values make a pruning worth while.
const STORED_ENOUGH: usize = 500;

/// A file that nobody has pruned for so long is pruned by the next process that stores something, however little: all of
/// them may be short-lived.
const OVERDUE_MS: i64 = 3_600_000;

/// The least time between two prunings.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);

/// And a multiple of how long the last one worked, so that it costs 5 % of a processor at most.
const INTERVAL_FACTOR: u32 = 20;

/// Closing looks so often whether the thread has ended.
const STOP_PAUSE: Duration = Duration::from_millis(1);

/// When the file was last pruned to the end.
const PRUNED_AT: &str = "SELECT updated_at FROM schema_meta WHERE id = 1";

/// When to prune, and the thread that does.
#[derive(Debug)]
pub(super) struct Pruner {
    identity: Identity,
    own: OwnBlobs,
    /// New values since the last pruning.
    stored: usize,
    not_before: Instant,
    has_looked: bool,
    thread: Option<Thread>,
}

#[derive(Debug)]
struct Thread {
    /// Gives how long it has worked.
    handle: JoinHandle<Duration>,
    /// Dropping it tells the thread to stop.
    stop: Sender<()>,
    interrupt: Interrupt,
}

/// How to interrupt the connection of the thread; nothing before it has one.
#[derive(Clone, Default)]
struct Interrupt(Arc<Mutex<Option<InterruptHandle>>>);

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Interrupt")
    }
}

impl Interrupt {
    fn set(&self, handle: InterruptHandle) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
    }

    fn interrupt(&self) {
        if let Some(handle) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            handle.interrupt();
        }
    }
}

impl Pruner {
    pub(super) fn new(identity: Identity, own: OwnBlobs) -> Self {
        Self { identity, own, stored: 0, not_before: Instant::now(), has_looked: false, thread: None }
    }

    /// Told after each write how many new values it has stored. Starts a thread where it is time to.
    pub(super) fn stored(&mut self, connection: &Connection, path: &Path, count: usize) {
        self.stored += count;
        let looks = count > 0 && !self.has_looked;
        self.has_looked |= looks;
        let is_time = self.stored >= STORED_ENOUGH || (looks && is_overdue(connection));
        // inside the caller's transaction it would only wait for the lock
        if !is_time || !connection.is_autocommit() || Instant::now() < self.not_before {
            return;
        }
        if let Some(thread) = self.thread.take_if(|thread| thread.handle.is_finished()) {
            // one that has failed, because the file is gone or somebody holds the lock, is tried again then
            let worked = thread.handle.join().unwrap_or_default();
            self.not_before = Instant::now() + LEAST_INTERVAL.max(worked * INTERVAL_FACTOR);
        } else if self.thread.is_none() {
            self.stored = 0;
            self.thread = self.start(path.to_owned());
        }
    }

    /// `None`: the system has no thread for us now.
    fn start(&self, path: PathBuf) -> Option<Thread> {
        let (stop, stopped) = channel();
        let interrupt = Interrupt::default();
        let (identity, own, shared) = (self.identity, self.own.clone(), interrupt.clone());
        let name = "pi-workflows-prune".to_owned();
        let handle =
            std::thread::Builder::new().name(name).spawn(move || prune(identity, &path, &own, &shared, &stopped));
        Some(Thread { handle: handle.ok()?, stop, interrupt })
    }
}

impl Drop for Pruner {
    fn drop(&mut self) {
        let Some(Thread { handle, stop, interrupt }) = self.thread.take() else {
            return;
        };
        drop(stop);
        while !handle.is_finished() {
            // again and again: what comes between two statements has no effect
            interrupt.interrupt();
            std::thread::sleep(STOP_PAUSE);
        }
        // that it was interrupted is no news
        let _ = handle.join();
    }
}

fn is_overdue(connection: &Connection) -> bool {
    let pruned = find(connection, PRUNED_AT, [], |row| Ok::<i64, Error>(row.get(0)?));
    matches!(pruned, Ok(Some(at)) if at < wall_clock_ms() - OVERDUE_MS)
}

/// What the thread does; gives how long it has worked. An error ends it: nobody waits for an answer, and what is left is
/// for the next one.
fn prune(identity: Identity, path: &Path, own: &OwnBlobs, interrupt: &Interrupt, stopped: &Receiver<()>) -> Duration {
    let started = Instant::now();
    let mut paused = Duration::ZERO;
    let _ = Pruning::open(identity, path, own, IN_THE_BACKGROUND).and_then(|pruning| {
        interrupt.set(pruning.connection().get_interrupt_handle());
        pruning.run(|pause| {
            let since = Instant::now();
            let goes_on = stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout);
            paused += since.elapsed();
            goes_on
        })
    });
    started.elapsed().saturating_sub(paused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;
    use crate::state::testing::open;

    fn blobs(state: &State) -> i64 {
        state.connection().query_row("SELECT count(*) FROM blobs", [], |row| row.get(0)).unwrap()
    }

    fn store(state: &mut State, values: std::ops::Range<usize>) {
        for index in values {
            state.write(|tx| tx.put_text(&format!("value {index}"), 0)).unwrap();
        }
    }

    #[test]
    fn enough_writes_prune_without_being_asked() {
        let root = tempfile::tempdir().unwrap();
        let mut state = open(&root.path().join("state.sqlite"));
        state.connection().pragma_update(None, "synchronous", "OFF").unwrap();
        store(&mut state, 0..STORED_ENOUGH);
        let patience = Instant::now() + Duration::from_secs(60);
        while blobs(&state) > 0 && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(blobs(&state), 0);
    }

    #[test]
    fn few_writes_start_nothing() {
        let root = tempfile::tempdir().unwrap();
        let mut state = open(&root.path().join("state.sqlite"));
        store(&mut state, 0..3);
        assert!(state.pruner.as_ref().is_some_and(|pruner| pruner.thread.is_none()));
    }

    #[test]
    fn a_file_that_has_gone_ends_it_quietly() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.sqlite");
        let identity = Identity::read(open(&path).connection()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (_stop, stopped) = channel();
        prune(identity, &path, &OwnBlobs::default(), &Interrupt::default(), &stopped);
        assert!(!path.exists());
    }

    #[test]
    fn another_database_in_its_place_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.sqlite");
        let identity = Identity::read(open(&path).connection()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let theirs = rusqlite::Connection::open(&path).unwrap();
        theirs
            .execute_batch("CREATE TABLE blobs(blob_hash, created_at); INSERT INTO blobs VALUES (zeroblob(32), 0)")
            .unwrap();
        let (_stop, stopped) = channel();
        prune(identity, &path, &OwnBlobs::default(), &Interrupt::default(), &stopped);
        assert_eq!(theirs.query_row("SELECT count(*) FROM blobs", [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    }

    #[test]
    fn a_file_that_nobody_has_pruned_for_long_is_pruned_after_a_single_write() {
        let root = tempfile::tempdir().unwrap();
        let mut state = open(&root.path().join("state.sqlite"));
        state.connection().execute_batch("UPDATE schema_meta SET updated_at = 0").unwrap();
        let others = "INSERT INTO blobs VALUES (CAST(printf('%032d', ?) AS BLOB), 'text/plain', 1, x'00', 0)";
        for index in 0..9 {
            state.connection().execute(others, [index]).unwrap();
        }
        store(&mut state, 0..1);
        let patience = Instant::now() + Duration::from_secs(60);
        let is_marked = |state: &State| !is_overdue(state.connection());
        while !is_marked(&state) && Instant::now() < patience {
            // a writer at work all the while is never refused
            state.write(|tx| tx.execute("UPDATE schema_meta SET app_version = app_version", [])).unwrap();
        }
        assert_eq!(blobs(&state), 0);
    }

    #[test]
    fn closing_stops_it_promptly_also_while_somebody_holds_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.sqlite");
        let mut state = open(&path);
        state.connection().execute_batch("UPDATE schema_meta SET updated_at = 0").unwrap();
        let mut rival = open(&path);
        store(&mut state, 0..1);
        assert!(state.pruner.as_ref().is_some_and(|pruner| pruner.thread.is_some()));
        rival
            .write(|_| {
                let started = Instant::now();
                drop(state);
                assert!(started.elapsed() < Duration::from_secs(3), "the busy timeout of a writer is five seconds");
                Ok::<_, Error>(())
            })
            .unwrap();
        drop(rival);
        assert!(!path.with_extension("sqlite-wal").exists(), "the last connection is closed");
    }
}
