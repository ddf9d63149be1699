//! The state of a run as JSON (`pi-workflows.run-state.v1`): a projection that other modules read byte by byte.
//!
//! It is canonical JSON that is made and changed here without parsing what is inside: members are taken apart and put
//! together as the texts they are.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::{Error, Refusal, Result};
use crate::state::json::object;
use crate::state::time::Iso;

/// Members that describe a run under way; an ended run has none of them.
const TRANSIENT: [&str; 6] =
    ["currentAttemptId", "currentNode", "currentNodeStartedAt", "paused", "statusDetail", "waitingOn"];

/// The members of a JSON object, as they stand.
type Members<'j> = Vec<(Cow<'j, str>, &'j RawValue)>;

/// Where a workflow comes from: its root, and what is mounted beside it.
struct Source<'j> {
    root: &'j str,
    mounted: Option<&'j str>,
}

/// What the projection of a queued run says.
#[derive(Debug)]
pub(super) struct Queued<'a> {
    pub(super) run_id: &'a str,
    pub(super) workflow_name: &'a str,
    /// Canonical JSON.
    pub(super) source: &'a str,
    pub(super) definition_digest: &'a str,
    pub(super) parent_run_id: Option<&'a str>,
    /// Canonical JSON.
    pub(super) input: &'a str,
    pub(super) revision: i64,
    pub(super) now: i64,
}

/// The projection of a run that has just been queued, as canonical JSON.
pub(super) fn queued(run: &Queued<'_>) -> Result<String> {
    let source = Source::read(run.source)?;
    // in canonical order
    Ok(object(|state| {
        if source.mounted.is_some() {
            state.string("definitionDigest", run.definition_digest);
        }
        state.raw("input", run.input);
        state.raw("outputs", "{}");
        state.optional_string("parentRunId", run.parent_run_id);
        state.raw("results", "{}");
        state.string("runId", run.run_id);
        state.string("schema", "pi-workflows.run-state.v1");
        state.time("startedAt", run.now);
        state.string("status", "running");
        state.raw("steps", "[]");
        state.integer("traceSeq", run.revision);
        state.time("updatedAt", run.now);
        state.raw("updates", "[]");
        state.string("workflowName", run.workflow_name);
        state.raw("workflowSource", source.root);
        if let Some(mounted) = source.mounted {
            state.raw("workflowSources", mounted);
        }
    }))
}

/// How a run ended.
#[derive(Debug)]
pub(super) struct Ended<'a> {
    pub(super) status: &'a str,
    /// A JSON string.
    pub(super) error: &'a str,
    pub(super) revision: i64,
    pub(super) now: i64,
}

/// The projection of a run that has ended, from the one it had, as canonical JSON.
pub(super) fn ended(run_id: &str, projection: &str, end: &Ended<'_>) -> Result<String> {
    let invalid = || Error::from(Refusal::RunStateInvalid(run_id.to_owned()));
    let members = members(projection).ok_or_else(invalid)?;
    let at = format!("\"{}\"", Iso(end.now));
    let (status, trace_seq) = (format!("\"{}\"", end.status), end.revision.to_string());
    let mut state: BTreeMap<JsOrder<'_>, &str> = members
        .iter()
        .filter(|(key, _)| !TRANSIENT.contains(&key.as_ref()))
        .map(|(key, value)| (JsOrder(key), value.get()))
        .collect();
    for (key, value) in
        [("error", end.error), ("finishedAt", &at), ("status", &status), ("traceSeq", &trace_seq), ("updatedAt", &at)]
    {
        state.insert(JsOrder(key), value);
    }
    let mut out = String::from("{");
    for (JsOrder(key), value) in state {
        if out.len() > 1 {
            out.push(',');
        }
        crate::state::json::push_string(&mut out, key);
        out.push(':');
        out.push_str(value);
    }
    out.push('}');
    Ok(out)
}

impl<'j> Source<'j> {
    /// One source, or a root with others mounted beside it.
    fn read(json: &'j str) -> Result<Self> {
        let members = members(json).unwrap_or_default();
        let member = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, value)| value.get());
        if matches!(member("kind"), Some(r#""builtin""# | r#""file""#)) {
            return Ok(Self { root: json, mounted: None });
        }
        match (member("root"), member("mounted")) {
            (Some(root), Some(mounted)) if root.starts_with('{') && mounted.starts_with('[') => {
                Ok(Self { root, mounted: Some(mounted).filter(|mounted| *mounted != "[]") })
            }
            _ => Err(Refusal::SourceInvalid.into()),
        }
    }
}

/// The members of a JSON object; `None` where the text is something else.
///
/// The values are not parsed, so that nesting as deep as JavaScript allows is no deeper here.
fn members(json: &str) -> Option<Members<'_>> {
    struct Taken;

    impl<'j> Visitor<'j> for Taken {
        type Value = Members<'j>;

        fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(key) = map.next_key::<Key<'j>>()? {
                members.push((key.0, map.next_value()?));
            }
            Ok(members)
        }
    }

    let mut parser = serde_json::Deserializer::from_str(json);
    let members = serde::Deserializer::deserialize_map(&mut parser, Taken).ok()?;
    parser.end().ok()?;
    Some(members)
}

/// A key, borrowed where it has no escapes.
struct Key<'j>(Cow<'j, str>);

impl<'j> serde::Deserialize<'j> for Key<'j> {
    fn deserialize<D: serde::Deserializer<'j>>(parser: D) -> std::result::Result<Self, D::Error> {
        struct Text;

        impl<'j> Visitor<'j> for Text {
            type Value = Key<'j>;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, text: &'j str) -> std::result::Result<Key<'j>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> std::result::Result<Key<'j>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }

        parser.deserialize_str(Text)
    }
}

/// A key in the order of a JavaScript object's: array indexes by number, then the others by UTF-16 code unit.
#[derive(PartialEq, Eq)]
struct JsOrder<'k>(&'k str);

impl JsOrder<'_> {
    /// Array indexes are `"0"` to `"4294967294"`, written as JavaScript writes them (ECMA-262, "array index").
    fn array_index(&self) -> Option<u32> {
        let index = self.0.parse::<u32>().ok().filter(|index| *index < u32::MAX)?;
        (index.to_string() == self.0).then_some(index)
    }
}

impl Ord for JsOrder<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (self.array_index(), other.array_index()) {
            (Some(one), Some(two)) => one.cmp(&two),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => self.0.encode_utf16().cmp(other.0.encode_utf16()),
        }
    }
}

impl PartialOrd for JsOrder<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILTIN: &str = r#"{"id":"echo","kind":"builtin"}"#;

    fn queued_from(source: &str) -> Result<String> {
        queued(&Queued {
            run_id: "run-1",
            workflow_name: "echo",
            source,
            definition_digest: "sha256:00",
            parent_run_id: None,
            input: "null",
            revision: 1,
            now: 0,
        })
    }

    fn end(projection: &str) -> Result<String> {
        ended("run-1", projection, &Ended { status: "failed", error: "\"boom\"", revision: 7, now: 0 })
    }

    #[test]
    fn a_source_is_one_or_a_root_with_mounted_ones() {
        assert!(queued_from(BUILTIN).unwrap().ends_with(r#""workflowSource":{"id":"echo","kind":"builtin"}}"#));
        let alone = format!(r#"{{"mounted":[],"root":{BUILTIN}}}"#);
        assert_eq!(queued_from(&alone).unwrap(), queued_from(BUILTIN).unwrap());
        let mounted = format!(r#"{{"mounted":[1],"root":{BUILTIN}}}"#);
        let state = queued_from(&mounted).unwrap();
        assert!(state.starts_with(r#"{"definitionDigest":"sha256:00","input":null"#), "{state}");
        assert!(state.ends_with(r#","workflowSources":[1]}"#), "{state}");
        for other in [
            "null",
            "[]",
            "\"builtin\"",
            "{}",
            r#"{"kind":"other"}"#,
            r#"{"mounted":{},"root":{}}"#,
            r#"{"mounted":[],"root":[]}"#,
        ] {
            assert!(matches!(queued_from(other), Err(Error::Refused(Refusal::SourceInvalid))), "{other}");
        }
    }

    #[test]
    fn an_ended_run_keeps_everything_but_what_was_under_way() {
        let before = r#"{"0":1,"10":2,"currentNode":"a","outputs":{"z":[1,{"y":"\ud800"}]},"paused":true,"status":"running","waitingOn":null,"ﬁ":1}"#;
        assert_eq!(
            end(before).unwrap(),
            r#"{"0":1,"10":2,"error":"boom","finishedAt":"1970-01-01T00:00:00.000Z","outputs":{"z":[1,{"y":"\ud800"}]},"status":"failed","traceSeq":7,"updatedAt":"1970-01-01T00:00:00.000Z","ﬁ":1}"#
        );
    }

    #[test]
    fn a_projection_that_is_no_object_is_refused() {
        for other in ["null", "[]", "1", "{", "{} {}", ""] {
            assert!(matches!(end(other), Err(Error::Refused(Refusal::RunStateInvalid(_)))), "{other}");
        }
    }

    #[test]
    fn nesting_as_deep_as_javascript_allows_is_no_deeper_here() {
        let deep = format!(r#"{{"input":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(end(&deep).unwrap().contains(&"[".repeat(100_000)));
    }

    #[test]
    fn keys_are_in_the_order_of_javascript() {
        let mut keys = ["b", "10", "2", "01", "-1", "4294967295", "4294967294", "\u{ffff}", "\u{1f600}", ""];
        keys.sort_by(|one, two| JsOrder(one).cmp(&JsOrder(two)));
        assert_eq!(keys, ["2", "10", "4294967294", "", "-1", "01", "4294967295", "b", "\u{1f600}", "\u{ffff}"]);
    }
}
