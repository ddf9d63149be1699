//! Projects: a store belongs to one, named by the real path of its folder.

use rusqlite::{Connection, params};

use super::Store;
use super::error::{Error, Refusal, Result};
use crate::state::{State, find, ids};

const REGISTER: &str = "INSERT INTO projects(project_id, canonical_path, created_at) VALUES (?, ?, ?)
  ON CONFLICT(project_id) DO NOTHING";

const LOOK_UP: &str = "SELECT project_id FROM projects WHERE canonical_path = ?";

impl Store {
    /// A store for a project, which is registered where it is new.
    pub fn register(state: &mut State, canonical_path: &str, now: i64) -> Result<Self> {
        // looked up first: a store that opens for the hundredth time takes no write lock
        if let Some(project) = look_up(state.connection(), canonical_path)? {
            return Ok(Self { project: Some(project) });
        }
        let project = ids::project_id(canonical_path);
        state.write(|tx| tx.execute(REGISTER, params![project, canonical_path, now]))?;
        Ok(Self { project: Some(project) })
    }

    /// A store for a project that may not be registered: then it reads across projects, or is refused, method by method.
    pub fn look_up(state: &State, canonical_path: &str) -> Result<Self> {
        Ok(Self { project: look_up(state.connection(), canonical_path)? })
    }

    /// The project, where the method cannot do without one.
    pub(super) fn require_project(&self) -> Result<&str> {
        self.project.as_deref().ok_or(Error::Refused(Refusal::ProjectNotRegistered))
    }
}

fn look_up(connection: &Connection, canonical_path: &str) -> Result<Option<String>> {
    find(connection, LOOK_UP, [canonical_path], |row| Ok(row.get(0)?))
}
