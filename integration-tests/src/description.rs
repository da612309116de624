//! The OpenAPI document of the admin API, and checks of answers against it.

use serde_json::Value;

/// Keywords of a schema that do not constrain a value.
const SILENT: [&str; 2] = ["description", "default"];

/// An OpenAPI document.
pub struct Description(Value);

/// One method of one path.
pub struct Operation<'a> {
    pub method: String,
    pub path: &'a str,
    words: &'a Value,
}

impl Description {
    pub fn new(document: Value) -> Self {
        assert_eq!(document["openapi"], "3.1.0");
        Self(document)
    }

    pub fn operations(&self, server: &str) -> Vec<Operation<'_>> {
        let by = |words: &Value| words["x-served-by"].as_array().unwrap().iter().any(|by| by == server);
        let paths = self.0["paths"].as_object().unwrap().iter();
        let all = paths.flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(move |(method, words)| Operation { method: method.to_uppercase(), path, words })
        });
        all.filter(|operation| by(operation.words)).collect()
    }

    /// Checks an answer to an operation against the document.
    ///
    /// # Errors
    /// If it differs; the text names the place.
    pub fn fits(&self, operation: &Operation<'_>, status: u16, answer: &Value) -> Result<(), String> {
        let response = &operation.words["responses"][status.to_string()];
        let schema = &response["content"]["application/json"]["schema"];
        if schema.is_null() {
            return Err(format!("the status {status} is not described"));
        }
        self.value_fits(schema, answer, "")
    }

    fn value_fits(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let fault = |what: String| Err(format!("at {at:?}: {what}: {value}"));
        for (word, says) in schema.as_object().unwrap() {
            match word.as_str() {
                word if SILENT.contains(&word) => {}
                "$ref" => {
                    let pointer = says.as_str().unwrap().trim_start_matches('#');
                    let referred = self.0.pointer(pointer).ok_or_else(|| format!("there is no {pointer}"))?;
                    self.value_fits(referred, value, at)?;
                }
                "oneOf" => {
                    let tried = says.as_array().unwrap().iter().map(|schema| self.value_fits(schema, value, at));
                    let tried: Vec<_> = tried.collect();
                    if tried.iter().filter(|fits| fits.is_ok()).count() != 1 {
                        return fault(format!("not exactly one of {} fits: {tried:?}", tried.len()));
                    }
                }
                "type" => {
                    let is = |kind: &Value| is_a(kind.as_str().unwrap(), value);
                    if !says.as_array().map_or_else(|| is(says), |kinds| kinds.iter().any(is)) {
                        return fault(format!("no {says}"));
                    }
                }
                "enum" => {
                    if !says.as_array().unwrap().contains(value) {
                        return fault(format!("none of {says}"));
                    }
                }
                "minimum" | "maximum" => {
                    let outside = |number: f64| {
                        let bound = says.as_f64().unwrap();
                        if word == "minimum" { number < bound } else { number > bound }
                    };
                    if value.as_f64().is_some_and(outside) {
                        return fault(format!("{word} is {says}"));
                    }
                }
                "required" => {
                    let lacks = |name: &&Value| value.get(name.as_str().unwrap()).is_none();
                    if let Some(lacking) = says.as_array().unwrap().iter().find(lacks) {
                        return fault(format!("without {lacking}"));
                    }
                }
                "properties" => {
                    for (name, schema) in says.as_object().unwrap() {
                        if let Some(value) = value.get(name) {
                            self.value_fits(schema, value, &format!("{at}/{name}"))?;
                        }
                    }
                }
                "additionalProperties" => {
                    assert_eq!(says, &Value::Bool(false));
                    let known = schema["properties"].as_object().unwrap();
                    let mut names = value.as_object().into_iter().flat_map(|object| object.keys());
                    if let Some(name) = names.find(|name| !known.contains_key(*name)) {
                        return fault(format!("{name} is not described"));
                    }
                }
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.value_fits(says, item, &format!("{at}/{index}"))?;
                    }
                }
                other => return Err(format!("at {at:?}: the schema says {other:?}, of which nothing is known here")),
            }
        }
        Ok(())
    }
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(schema: &Value, value: &Value) -> bool {
        let named = json!({ "type": "integer", "minimum": 0 });
        let document = json!({ "openapi": "3.1.0", "components": { "schemas": { "Count": named } } });
        Description::new(document).value_fits(schema, value, "").is_ok()
    }

    #[test]
    fn value_of_another_shape_does_not_fit() {
        let count = json!({ "$ref": "#/components/schemas/Count" });
        let row = json!({ "type": "object", "required": ["n"], "additionalProperties": false,
                          "properties": { "n": count, "of": { "oneOf": [count, { "type": "null" }] } } });
        let rows = json!({ "type": "array", "items": row });
        for good in [json!([]), json!([{ "n": 1 }]), json!([{ "n": 1, "of": null }, { "n": 0, "of": 2 }])] {
            assert!(fits(&rows, &good), "{good}");
        }
        for bad in [
            json!({}),
            json!([{}]),
            json!([{ "n": "1" }]),
            json!([{ "n": -1 }]),
            json!([{ "n": 1, "of": "x" }]),
            json!([{ "n": 1, "x": 1 }]),
        ] {
            assert!(!fits(&rows, &bad), "{bad}");
        }
        assert!(!fits(&json!({ "pattern": "x" }), &json!("x")), "a word that nobody here knows says nothing");
    }
}
