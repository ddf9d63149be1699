//! The schema: creating it in an empty file, recognising it in another.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::{Connection, params};

use super::error::{Error, Result};
use super::ids::Digest;
use super::query::{find, for_each};
use super::transaction::write;

/// The text of the built-in schema.
pub(crate) const SQL: &str = include_str!("schema.sql");

/// `application_id` of the file: "PIWF".
const APPLICATION_ID: i32 = 0x5049_5746;

const NAME: &str = "pi-workflows-state";
const VERSION: i32 = 1;

/// Every table and column that the domain uses. A file may have more of both.
const USED: &[(&str, &str)] = &[
    ("schema_meta", "id schema_name schema_version schema_digest app_version created_at updated_at"),
    ("projects", "project_id canonical_path created_at"),
    ("blobs", "blob_hash media_type byte_length content created_at"),
    ("resources", "resource_id resource_type aggregate_key revision created_at updated_at"),
    ("leases", "resource_id generation owner_type owner_id token_hash acquired_at heartbeat_at expires_at"),
    (
        "events",
        "event_seq event_id resource_id resource_revision event_type actor_type actor_id lease_generation payload_hash recorded_at",
    ),
    ("workflow_definitions", "definition_digest workflow_name definition_hash created_at"),
    (
        "runs",
        "run_id resource_id project_id parent_run_id definition_digest workflow_ref workflow_source_hash launch_options_hash source_type source_ref source_revision title status paused status_detail input_hash output_hash error_hash created_at updated_at finished_at",
    ),
    ("run_bindings", "run_id origin_session_id execution_mode created_at"),
    (
        "run_queue",
        "run_id status available_at affinity_runner_id origin_session_id consecutive_errors error_code error_hash created_at updated_at started_at finished_at",
    ),
    (
        "node_attempts",
        "attempt_id run_id node_id attempt_number node_type status input_hash output_hash error_hash started_at deadline_at finished_at created_at updated_at",
    ),
    (
        "controller_resources",
        "controller_resource_id resource_id project_id controller_name resource_key uid generation spec_hash status_hash deletion_requested_at created_at updated_at",
    ),
    ("controller_finalizers", "controller_resource_id finalizer position"),
    (
        "controller_queue",
        "controller_resource_id available_at queue_version consecutive_errors last_error_hash created_at updated_at",
    ),
    (
        "controller_workflows",
        "request_id controller_resource_id request_key workflow_name input_fingerprint reserved_run_id run_id status attempt_count error_hash created_at updated_at",
    ),
    (
        "effects",
        "effect_id resource_id source_resource_id source_revision effect_type idempotency_key payload_hash owner_scope status attempt_count next_attempt_at result_hash external_ref error_hash created_at updated_at settled_at",
    ),
    (
        "notifications",
        "notification_id effect_id run_id attempt_id notification_index target_session_id notification_type content_hash created_at",
    ),
    (
        "turn_intents",
        "turn_intent_id resource_id effect_id source_event_id run_id workflow_ref target_session_id cause node_id attempt_id resolution_type resolution_message_id facts_hash requested_at eligible_at resolved_at created_at",
    ),
];

/// What the host package brings along instead of the built-in schema. A file then has to match it exactly.
#[derive(Clone, Debug)]
pub struct HostSchema {
    /// The statements that create it.
    pub sql: String,
    /// `schema_meta.schema_name`.
    pub name: String,
    /// `schema_meta.schema_version` and `user_version`.
    pub version: i32,
    /// `application_id`.
    pub application_id: i32,
    /// `schema_meta.app_version`.
    pub app_version: String,
}

/// The schema that a file is created with and checked against.
#[derive(Clone, Debug)]
pub enum Schema {
    /// The one in `schema.sql`; other files that have all it needs are welcome.
    BuiltIn,
    /// The host package's, exactly.
    Host(HostSchema),
}

impl Schema {
    fn sql(&self) -> &str {
        match self {
            Self::BuiltIn => SQL,
            Self::Host(host) => &host.sql,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::BuiltIn => NAME,
            Self::Host(host) => &host.name,
        }
    }

    fn version(&self) -> i32 {
        match self {
            Self::BuiltIn => VERSION,
            Self::Host(host) => host.version,
        }
    }

    fn application_id(&self) -> i32 {
        match self {
            Self::BuiltIn => APPLICATION_ID,
            Self::Host(host) => host.application_id,
        }
    }

    fn app_version(&self) -> &str {
        match self {
            Self::BuiltIn => env!("CARGO_PKG_VERSION"),
            Self::Host(host) => &host.app_version,
        }
    }

    /// Creates the schema where the database is still empty. A rival process may have been faster: then nothing happens.
    pub(super) fn create(&self, connection: &Connection, now: i64) -> Result<()> {
        write(connection, |tx| {
            if !Header::read(tx)?.is_empty() {
                return Ok(());
            }
            tx.execute_batch(self.sql())?;
            tx.execute(
                "INSERT INTO schema_meta(id, schema_name, schema_version, schema_digest, app_version, created_at, updated_at)
                 VALUES (1, ?, ?, ?, ?, ?, ?)",
                params![self.name(), self.version(), Digest::of(self.sql()), self.app_version(), now, now],
            )?;
            // part of the transaction: both live in the file's first page
            tx.pragma_update(None, "application_id", self.application_id())?;
            Ok(tx.pragma_update(None, "user_version", self.version())?)
        })
    }

    /// Refuses a file that holds something else, with the reset instruction.
    pub(super) fn check(&self, connection: &Connection, path: &Path) -> Result<()> {
        match self.mismatch(connection)? {
            Some(found) => Err(Error::Incompatible { path: path.to_owned(), found }),
            None => Ok(()),
        }
    }

    fn mismatch(&self, connection: &Connection) -> Result<Option<String>> {
        let header = Header::read(connection)?;
        if header.is_empty() {
            return Ok(Some("it is empty".to_owned()));
        }
        if header.application_id != self.application_id() {
            let expected = self.application_id();
            return Ok(Some(format!("its application id is {}, not {expected}", header.application_id)));
        }
        if header.user_version != self.version() {
            return Ok(Some(format!("its version is {}, not {}", header.user_version, self.version())));
        }
        if let Some(missing) = missing_column(connection)? {
            return Ok(Some(format!("it has no {missing}")));
        }
        let meta = find(
            connection,
            "SELECT schema_name, schema_version, schema_digest, app_version FROM schema_meta WHERE id = 1",
            [],
            |row| {
                Ok::<_, Error>(Meta {
                    name: row.get(0)?,
                    version: row.get(1)?,
                    digest: row.get(2)?,
                    app_version: row.get(3)?,
                })
            },
        )?;
        Ok(match meta {
            None => Some("it does not name its schema".to_owned()),
            Some(meta) => self.mismatch_of(&meta),
        })
    }

    fn mismatch_of(&self, meta: &Meta) -> Option<String> {
        let (name, version) = (self.name(), self.version());
        if meta.name != name || meta.version != i64::from(version) {
            return Some(format!("its schema is {} {}, not {name} {version}", meta.name, meta.version));
        }
        let Self::Host(host) = self else { return None };
        if meta.app_version != host.app_version {
            return Some(format!("it was made by version {}, not {}", meta.app_version, host.app_version));
        }
        if meta.digest != Digest::of(&host.sql).0 {
            return Some("its schema has another digest".to_owned());
        }
        None
    }
}

struct Meta {
    name: String,
    version: i64,
    digest: Vec<u8>,
    app_version: String,
}

/// What the first page says.
pub(super) struct Header {
    application_id: i32,
    user_version: i32,
    objects: i64,
}

impl Header {
    /// Reads it. A file that is no database at all fails here, with `SQLITE_NOTADB`.
    pub(super) fn read(connection: &Connection) -> Result<Self> {
        find(
            connection,
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
             FROM pragma_application_id, pragma_user_version",
            [],
            |row| Ok::<_, Error>(Self { application_id: row.get(0)?, user_version: row.get(1)?, objects: row.get(2)? }),
        )?
        .ok_or_else(|| Error::Damaged("it has no header".to_owned()))
    }

    /// Nothing in it, and nobody's: an empty file, or one whose first opener was interrupted before it wrote anything.
    pub(super) fn is_empty(&self) -> bool {
        self.objects == 0 && self.application_id == 0 && self.user_version == 0
    }
}

/// The first of the used columns that is not there. Views do not count: they could answer anything.
fn missing_column(connection: &Connection) -> Result<Option<String>> {
    let mut found = HashSet::new();
    for_each(
        connection,
        "SELECT m.name || '.' || c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'",
        [],
        |row| {
            found.insert(row.get::<_, String>(0)?);
            Ok::<_, Error>(())
        },
    )?;
    Ok(USED
        .iter()
        .flat_map(|(table, columns)| columns.split(' ').map(move |column| format!("{table}.{column}")))
        .find(|column| !found.contains(column)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(schema: &Schema) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        schema.create(&connection, 1).unwrap();
        connection
    }

    fn message(schema: &Schema, connection: &Connection) -> String {
        schema.check(connection, Path::new("/there/state.sqlite")).unwrap_err().to_string()
    }

    fn host(sql: &str) -> HostSchema {
        HostSchema {
            sql: format!("{SQL}\n{sql}"),
            name: NAME.to_owned(),
            version: 1,
            application_id: APPLICATION_ID,
            app_version: "9.9.9".to_owned(),
        }
    }

    #[test]
    fn the_list_of_used_columns_is_the_built_in_schema() {
        let connection = created(&Schema::BuiltIn);
        let mut tables: Vec<(String, Vec<String>)> = Vec::new();
        for_each::<Error>(
            &connection,
            "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.rowid, c.cid",
            [],
            |row| {
                let (table, column): (String, String) = (row.get(0)?, row.get(1)?);
                match tables.last_mut() {
                    Some((name, columns)) if *name == table => columns.push(column),
                    _ => tables.push((table, vec![column])),
                }
                Ok(())
            },
        )
        .unwrap();
        let expected: Vec<_> = tables.iter().map(|(table, columns)| (table.as_str(), columns.join(" "))).collect();
        let used: Vec<_> = USED.iter().map(|(table, columns)| (*table, (*columns).to_owned())).collect();
        assert_eq!(used, expected);
    }

    #[test]
    fn every_table_is_a_strict_rowid_table() {
        let connection = created(&Schema::BuiltIn);
        let other: i64 = connection
            .query_row(
                "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%' AND NOT (strict AND NOT wr)",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(other, 0);
    }

    #[test]
    fn each_mismatch_is_named() {
        let schema = Schema::BuiltIn;
        let nothing = Connection::open_in_memory().unwrap();
        assert!(message(&schema, &nothing).contains("it is empty"));
        for (change, found) in [
            ("PRAGMA application_id = 7", "its application id is 7, not 1346983750"),
            ("PRAGMA user_version = 2", "its version is 2, not 1"),
            ("ALTER TABLE runs DROP COLUMN title", "it has no runs.title"),
            ("DROP TABLE turn_intents; CREATE VIEW turn_intents AS SELECT 1", "it has no turn_intents.turn_intent_id"),
            ("DELETE FROM schema_meta", "it does not name its schema"),
        ] {
            let connection = created(&schema);
            connection.execute_batch(change).unwrap();
            let message = message(&schema, &connection);
            assert!(message.contains(found), "{message}");
            assert!(message.contains("incompatible") && message.contains("/there/state.sqlite"), "{message}");
        }
    }

    #[test]
    fn a_host_schema_must_match_exactly_and_the_built_in_one_accepts_it() {
        let theirs = Schema::Host(host("CREATE TABLE host_extra(id INTEGER PRIMARY KEY) STRICT;"));
        let connection = created(&theirs);
        theirs.check(&connection, Path::new("x")).unwrap();
        Schema::BuiltIn.check(&connection, Path::new("x")).unwrap();
        let other_sql = Schema::Host(host(""));
        assert!(message(&other_sql, &connection).contains("another digest"));
        let Schema::Host(mut older) = theirs else { return };
        older.app_version = "9.9.8".to_owned();
        assert!(message(&Schema::Host(older), &connection).contains("version 9.9.9, not 9.9.8"));
    }

    #[test]
    fn creating_twice_changes_nothing() {
        let connection = created(&Schema::BuiltIn);
        let before = connection.total_changes();
        Schema::BuiltIn.create(&connection, 2).unwrap();
        assert_eq!(connection.total_changes(), before);
    }
}
