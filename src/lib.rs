//! The native half of `@pi-workflows/store`: the durable store of pi-workflows on one SQLite file.
//!
//! # The map
//!
//! | layer | what it owns |
//! | --- | --- |
//! | [`state`] | the file: how it is opened and checked (`mod`, `schema`, `files`), how it is written (`transaction`, `query`), content-addressed values (`blobs`, `prune`), `backup`, identifiers and digests (`ids`), times (`time`), JSON text (`json`) |
//! | [`store`] | the domain, one file per subject: `resources`, `queue`, `leases`, `effects`, `child_workflows`, `events`, `runs`, `run_queue`, `run_state`, `run_events`, `turn_intents`, `notifications`, `deliveries`, `identities`, `projects` |
//! | `node` | N-API: converts arguments and answers, and nothing else. Left out without the feature of the same name |
//!
//! Each layer knows only the one below it.
//!
//! # What always holds
//!
//! - A method that writes is one transaction: everything it does is committed together, once, or not at all.
//! - A resource's revision grows by one with each event, and every revision has its event.
//! - The generation of a lease only grows, also when the key of what it guards is used again.
//! - A lease is held (owner, token's digest, three times) or free (none of them).
//! - Of a token only its SHA-256 is kept.
//! - Time comes in as an argument; only [`state::time`] reads the clock.
//! - Nothing opens the database files except SQLite.

#[cfg(feature = "node")]
mod node;
pub mod state;
pub mod store;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    fn sources(layer: &str) -> Vec<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(layer);
        fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
            .collect()
    }

    fn mentions(layer: &str, other: &str) -> Vec<String> {
        sources(layer)
            .iter()
            .filter(|path| {
                fs::read_to_string(path).unwrap().lines().any(|line| {
                    let code = line.trim_start();
                    !code.starts_with("//") && code.contains(other)
                })
            })
            .map(|path| path.display().to_string())
            .collect()
    }

    #[test]
    fn no_layer_looks_up() {
        for (layer, above) in [
            ("state", "crate::store"),
            ("state", "crate::node"),
            ("state", "napi"),
            ("store", "crate::node"),
            ("store", "napi"),
        ] {
            assert!(!sources(layer).is_empty());
            assert_eq!(mentions(layer, above), Vec::<String>::new(), "{layer} mentions {above}");
        }
        assert!(!mentions("node", "napi").is_empty(), "the search finds what is there");
    }

    #[test]
    fn unsafe_code_is_where_node_is() {
        for layer in ["state", "store"] {
            assert_eq!(mentions(layer, "unsafe "), Vec::<String>::new());
        }
    }
}
