//! JSON text: written straight from rows, read as raw pieces.
//!
//! A record crosses to JavaScript as one text that the face parses. Stored JSON is canonical already, so it is copied
//! into that text as it stands; nothing here parses a stored value into a tree.

use std::fmt::Write as _;

use super::time::Iso;

/// Appends `text` as a JSON string with the escapes that `JSON.stringify` uses.
pub fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut clean = 0;
    for (index, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(text.get(clean..index).unwrap_or_default());
        clean = index + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            0x09 => out.push_str("\\t"),
            0x0a => out.push_str("\\n"),
            0x0c => out.push_str("\\f"),
            0x0d => out.push_str("\\r"),
            _ => push_display(out, format_args!("\\u{byte:04x}")),
        }
    }
    out.push_str(text.get(clean..).unwrap_or_default());
    out.push('"');
}

/// Appends whatever prints itself: numbers, or a piece that needs no escapes.
pub fn push_display(out: &mut String, value: impl std::fmt::Display) {
    // writing to a String cannot fail
    let _ = write!(out, "{value}");
}

/// Writes one JSON object, member by member, in the order of the calls.
#[derive(Debug)]
pub struct Object<'o> {
    out: &'o mut String,
    empty: bool,
}

impl<'o> Object<'o> {
    /// Opens the object.
    pub fn begin(out: &'o mut String) -> Self {
        out.push('{');
        Self { out, empty: true }
    }

    /// Closes it.
    pub fn end(self) {
        self.out.push('}');
    }

    /// A member whose value the caller appends to what is returned. `key` needs no escapes: it is one of ours.
    pub fn key(&mut self, key: &'static str) -> &mut String {
        if !self.empty {
            self.out.push(',');
        }
        self.empty = false;
        self.out.push('"');
        self.out.push_str(key);
        self.out.push_str("\":");
        self.out
    }

    /// A string member.
    pub fn string(&mut self, key: &'static str, value: &str) {
        push_string(self.key(key), value);
    }

    /// An integer member.
    pub fn integer(&mut self, key: &'static str, value: i64) {
        push_display(self.key(key), value);
    }

    /// A boolean member.
    pub fn boolean(&mut self, key: &'static str, value: bool) {
        self.key(key).push_str(if value { "true" } else { "false" });
    }

    /// A member that is JSON text already.
    pub fn raw(&mut self, key: &'static str, json: &str) {
        self.key(key).push_str(json);
    }

    /// A time member, as ISO text.
    pub fn time(&mut self, key: &'static str, ms: i64) {
        push_display(self.key(key), format_args!("\"{}\"", Iso(ms)));
    }

    /// A string member that is left out where there is no value (a `?` member of the TypeScript type).
    pub fn optional_string(&mut self, key: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.string(key, value);
        }
    }

    /// A time member that is left out where there is no value.
    pub fn optional_time(&mut self, key: &'static str, ms: Option<i64>) {
        if let Some(ms) = ms {
            self.time(key, ms);
        }
    }

    /// A string member that is `null` where there is no value (a `| null` member of the TypeScript type).
    pub fn nullable_string(&mut self, key: &'static str, value: Option<&str>) {
        match value {
            Some(value) => self.string(key, value),
            None => self.raw(key, "null"),
        }
    }

    /// A time member that is `null` where there is no value.
    pub fn nullable_time(&mut self, key: &'static str, ms: Option<i64>) {
        match ms {
            Some(ms) => self.time(key, ms),
            None => self.raw(key, "null"),
        }
    }
}

/// Writes one JSON array, element by element.
#[derive(Debug)]
pub struct Array {
    out: String,
}

impl Array {
    /// Opens the array.
    #[must_use]
    pub fn begin() -> Self {
        Self { out: String::from("[") }
    }

    /// The next element, which the caller appends to what is returned.
    pub fn element(&mut self) -> &mut String {
        if self.out.len() > 1 {
            self.out.push(',');
        }
        &mut self.out
    }

    /// Closes the array and gives its text.
    #[must_use]
    pub fn end(mut self) -> String {
        self.out.push(']');
        self.out
    }
}

/// The text of one object whose members `fill` writes.
pub fn object(fill: impl FnOnce(&mut Object<'_>)) -> String {
    let mut out = String::new();
    let mut object = Object::begin(&mut out);
    fill(&mut object);
    object.end();
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn objects_and_arrays_have_commas_only_between() {
        let mut list = Array::begin();
        for name in ["a", "b"] {
            let mut entry = Object::begin(list.element());
            entry.string("name", name);
            entry.integer("n", -1);
            entry.optional_string("absent", None);
            entry.nullable_string("nothing", None);
            entry.time("at", 0);
            entry.end();
        }
        let entry = |name| format!(r#"{{"name":"{name}","n":-1,"nothing":null,"at":"1970-01-01T00:00:00.000Z"}}"#);
        assert_eq!(list.end(), format!("[{},{}]", entry("a"), entry("b")));
        assert_eq!(Array::begin().end(), "[]");
        assert_eq!(object(|_| ()), "{}");
    }

    proptest! {
        #[test]
        fn strings_come_back_and_match_serde(text in any::<String>()) {
            let mut out = String::new();
            push_string(&mut out, &text);
            // serde_json escapes as JSON.stringify does: shortest forms, lowercase \u00xx, nothing above 0x1f
            prop_assert_eq!(serde_json::to_string(&text).ok(), Some(out.clone()));
            prop_assert_eq!(serde_json::from_str::<String>(&out).ok(), Some(text));
        }
    }
}
