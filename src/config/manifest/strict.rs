//! JSON in which no key stands twice: two readers of such a text could disagree on what it allows.
//!
//! Pure. Called by `manifest.rs`. Nesting is bounded by serde_json.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::config::error::Place;

/// Reads one value, or says where and why not.
pub(super) fn parse(text: &str) -> Result<Value, (Option<Place>, String)> {
    serde_json::from_str(text).map(|Strict(value)| value).map_err(|error| {
        let place = (error.line() > 0).then(|| Place { line: error.line(), column: error.column() });
        let whole = error.to_string();
        // The place stands in front of the message already.
        let what = whole.rsplit_once(" at line ").map_or(whole.as_str(), |(what, _)| what);
        (place, format!("not JSON: {what}"))
    })
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Strict;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Strict;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Strict, E> {
        Ok(Strict(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Strict, E> {
        Ok(Strict(Value::Number(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Strict, E> {
        Ok(Strict(Value::Number(value.into())))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Strict, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number that is not finite"))?;
        Ok(Strict(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Strict, E> {
        Ok(Strict(Value::String(value.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Strict, A::Error> {
        let mut array = Vec::new();
        while let Some(Strict(element)) = elements.next_element_seed(Reader)? {
            array.push(element);
        }
        Ok(Strict(Value::Array(array)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Strict, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(format!("the key \"{}\" stands twice", name.escape_debug())));
            }
            let Strict(value) = members.next_value_seed(Reader)?;
            object.insert(name, value);
        }
        Ok(Strict(Value::Object(object)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_serde_json() {
        let text = r#"{"a": [1, -2, 0.5, true, null, "x\u00e9"], "b": {"c": {}}}"#;
        assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn a_key_that_stands_twice_is_an_error_with_its_place() {
        let (place, what) = parse("{\"tools\": {\n\"a\": 1,\n\"a\": 2}}").unwrap_err();
        assert_eq!(what, "not JSON: the key \"a\" stands twice");
        assert_eq!(place.unwrap().line, 3);
        let (place, what) = parse("{\n  \"a\": }").unwrap_err();
        assert_eq!((place.unwrap().line, what.as_str()), (2, "not JSON: expected value"));
        assert!(parse("{} x").is_err() && parse("").is_err() && parse(&"[".repeat(1000)).is_err());
    }
}
