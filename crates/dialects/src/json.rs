//! JSON objects of clients, read as JavaScript reads them: the last of repeated fields wins.
//!
//! Values stay unparsed, so that payloads keep their bytes and may nest without limit. Translators
//! parse frames of clients and the `data` of other translators with it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Borrows text without escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A JSON object with unparsed values.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    /// Names and values as written, also of a repeated name.
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// Parses a text. `None`: it is no JSON object in UTF-8.
    pub(crate) fn parse(text: &'a [u8]) -> Option<Self> {
        serde_json::from_str(str::from_utf8(text).ok()?).ok()
    }

    /// Parses a text. `None`: it is no JSON object in UTF-8, or a name occurs twice.
    pub(crate) fn parse_unique(text: &'a [u8]) -> Option<Self> {
        let object = Self::parse(text)?;
        // A message may have thousands of fields: no linear search for each.
        let names: BTreeSet<_> = object.fields.iter().map(|(name, _)| name).collect();
        (names.len() == object.fields.len()).then_some(object)
    }

    /// Returns a field's value. `null` is a value. `None`: there is no such field.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.fields.iter().rfind(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// Returns a field's text. `None`: it is absent or no string.
    pub(crate) fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(string)
    }

    /// Returns the object as text without one field, each name at its first place with its last
    /// value. `tail` is a further last field, such as `"n":1`.
    pub(crate) fn to_text(&self, without: &str, tail: Option<&str>) -> String {
        // The last value of each name. A map, since a message may have thousands of fields.
        let mut last: BTreeMap<_, _> = self.fields.iter().map(|(name, value)| (name, value)).collect();
        let kept = self.fields.iter().filter(|(name, _)| name != without);
        // Only the first place of a name finds its value.
        let fields = kept.filter_map(|(name, _)| {
            let value = last.remove(name)?;
            Some(format!("{}:{value}", quote(name)))
        });
        let fields: Vec<String> = fields.chain(tail.map(str::to_owned)).collect();
        format!("{{{}}}", fields.join(","))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(4);
        while let Some((Text(name), value)) = map.next_entry()? {
            fields.push((name, value));
        }
        Ok(Object { fields })
    }
}

/// Returns a value's text. `None`: it is no string, or one with half of a surrogate pair.
pub(crate) fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(value.get()).ok().map(|Text(text)| text)
}

/// Returns a value's elements. `None`: it is no array.
pub(crate) fn array(value: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(value.get()).ok()
}

/// Returns a text as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    // A string in memory: serialization cannot fail.
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_of_repeated_fields_wins_at_the_first_place() {
        let object = Object::parse(br#"{"a":1, "b" : [ 2 ],"\u0061":"x"}"#).unwrap();
        assert_eq!(object.string("a").as_deref(), Some("x"));
        assert_eq!(object.to_text("c", None), r#"{"a":"x","b":[ 2 ]}"#);
        assert_eq!(object.to_text("b", Some(r#""n":1"#)), r#"{"a":"x","n":1}"#);
        assert_eq!(Object::parse(b"{}").unwrap().to_text("b", Some(r#""n":1"#)), r#"{"n":1}"#);
    }

    #[test]
    fn repeated_field_is_found_in_its_object_only() {
        assert!(Object::parse_unique(br#"{"a":1,"\u0061":2}"#).is_none());
        assert!(Object::parse_unique(br#"{"a":{"b":1,"b":2},"b":3}"#).is_some());
    }

    #[test]
    fn repeated_field_is_found_among_many_fields() {
        for count in [1, 2, 48] {
            let fields: Vec<String> = (0..count).map(|n| format!("\"{n}\":{n}")).collect();
            for repeated in [0, count - 1] {
                let text = format!("{{{},\"{repeated}\":-1,\"{repeated}\":-2}}", fields.join(","));
                let object = Object::parse(text.as_bytes()).unwrap();
                assert_eq!(object.get(&repeated.to_string()).unwrap().get(), "-2", "{text}");
                assert_eq!(object.to_text("", None).matches(':').count(), count, "{text}");
                assert!(Object::parse_unique(text.as_bytes()).is_none(), "{text}");
            }
        }
    }

    #[test]
    fn other_values_are_no_objects() {
        for text in ["null", "5", "[]", "[1,2]", "\"a\"", "not json", "", "{", "{}{}", "{\"a\":}"] {
            assert!(Object::parse(text.as_bytes()).is_none(), "{text}");
        }
        assert!(Object::parse(b"{\"a\":\"\xff\"}").is_none());
    }

    #[test]
    fn payload_may_nest_without_limit() {
        let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
        let text = format!(r#"{{"p":{deep}}}"#);
        assert_eq!(Object::parse(text.as_bytes()).unwrap().get("p").unwrap().get(), deep);
    }

    #[test]
    fn many_fields_are_read_in_reasonable_time() {
        let fields: Vec<String> = (0..100_000).map(|n| format!("\"{n}\":{n}")).collect();
        let text = format!("{{{}}}", fields.join(","));
        let object = Object::parse_unique(text.as_bytes()).unwrap();
        assert_eq!(object.get("99999").unwrap().get(), "99999");
        assert_eq!(object.to_text("", None), text);
    }

    #[test]
    fn half_of_a_surrogate_pair_is_no_string() {
        let object = Object::parse(br#"{"a":"\ud800"}"#).unwrap();
        assert_eq!((object.string("a"), object.get("a").unwrap().get()), (None, r#""\ud800""#));
    }
}
