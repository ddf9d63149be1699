//! The closed sets of the domain. Each owns its text; a test holds them against the `CHECK`s of the schema.

use rusqlite::types::{ToSql, ToSqlOutput};

macro_rules! closed_set {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum $name { $($variant),* }

        impl $name {
            #[cfg(test)]
            const TEXTS: &[&str] = &[$($text),*];

            pub(super) fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// The member with this text; `None` where there is none.
            #[allow(dead_code, reason = "not every set is read back")]
            pub(super) fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.as_str().into())
            }
        }
    };
}

closed_set! {
    /// What kind of owner holds a lease.
    OwnerType { Session = "session", Host = "host", Controller = "controller", Channel = "channel", System = "system" }
}

closed_set! {
    /// What kind of actor caused an event.
    ActorType {
        Session = "session", Host = "host", Controller = "controller", Channel = "channel",
        Human = "human", Policy = "policy", Control = "control", System = "system",
    }
}

closed_set! {
    /// Where a run is in the queue.
    QueueStatus {
        Queued = "queued", Starting = "starting", Running = "running", Parked = "parked",
        Done = "done", Failed = "failed", Cancelled = "cancelled",
    }
}

impl OwnerType {
    /// Whoever runs workflows is a host when its id says so, and a session otherwise.
    pub(super) fn of_runner(runner_id: &str) -> Self {
        if runner_id.starts_with("host-") { Self::Host } else { Self::Session }
    }
}

impl From<OwnerType> for ActorType {
    fn from(owner: OwnerType) -> Self {
        match owner {
            OwnerType::Session => Self::Session,
            OwnerType::Host => Self::Host,
            OwnerType::Controller => Self::Controller,
            OwnerType::Channel => Self::Channel,
            OwnerType::System => Self::System,
        }
    }
}

impl QueueStatus {
    /// Nothing leads out of these.
    pub(super) fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::SCHEMA_SQL;

    /// The list in the first `CHECK (COLUMN IN (…))` of a table.
    fn check(table: &str, column: &str) -> Vec<&'static str> {
        let table =
            SCHEMA_SQL.split(&format!("CREATE TABLE {table} (")).nth(1).unwrap().split("STRICT;").next().unwrap();
        let list = table.split(&format!("CHECK ({column} IN")).nth(1).unwrap();
        let list = list.split(')').next().unwrap();
        list.split('\'').skip(1).step_by(2).collect()
    }

    #[test]
    fn the_sets_are_those_of_the_schema() {
        assert_eq!(OwnerType::TEXTS, check("leases", "owner_type"));
        assert_eq!(ActorType::TEXTS, check("events", "actor_type"));
        assert_eq!(QueueStatus::TEXTS, check("run_queue", "status"));
    }

    #[test]
    fn texts_are_read_back() {
        for text in QueueStatus::TEXTS {
            assert_eq!(QueueStatus::parse(text).map(QueueStatus::as_str), Some(*text));
        }
        assert_eq!(QueueStatus::parse("paused"), None);
    }
}
