//! The OpenAPI document of the admin API, and checks of answers against it.

use serde_json::Value;

/// Keywords of a schema that do not constrain a value.
const UNCONSTRAINING: [&str; 2] = ["description", "default"];

/// An OpenAPI document.
pub struct Description(Value);

/// One method of one path.
pub struct Operation<'a> {
    /// In upper case.
    pub method: String,
    /// As in the document, with parameters in braces.
    pub path: &'a str,
    object: &'a Value,
}

impl Description {
    /// Wraps an OpenAPI document. Panics if its version is not 3.1.0.
    pub fn new(document: Value) -> Self {
        assert_eq!(document["openapi"], "3.1.0");
        Self(document)
    }

    /// Returns the operations of a kind of server: `node` or `balancer`.
    pub fn operations(&self, server: &str) -> Vec<Operation<'_>> {
        let by = |object: &Value| object["x-served-by"].as_array().unwrap().iter().any(|by| by == server);
        let paths = self.0["paths"].as_object().unwrap().iter();
        let all = paths.flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(move |(method, object)| Operation { method: method.to_uppercase(), path, object })
        });
        all.filter(|operation| by(operation.object)).collect()
    }

    /// Returns the parameters with these names of all operations.
    pub fn parameters(&self, names: &[&str]) -> Vec<&Value> {
        let methods = self.0["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
        let parameters = methods.filter_map(|method| method["parameters"].as_array()).flatten();
        parameters.filter(|parameter| names.iter().any(|name| parameter["name"] == *name)).collect()
    }

    /// Checks an answer to an operation against the document.
    ///
    /// # Errors
    /// If it differs; the text names the place.
    pub fn fits(&self, operation: &Operation<'_>, status: u16, answer: &Value) -> Result<(), String> {
        let response = &operation.object["responses"][status.to_string()];
        let schema = &response["content"]["application/json"]["schema"];
        if schema.is_null() {
            return Err(format!("the status {status} is not described"));
        }
        self.value_fits(schema, answer, "")
    }

    fn value_fits(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        for (keyword, constraint) in schema.as_object().unwrap() {
            let listed = || constraint.as_array().unwrap().iter();
            let fits = match keyword.as_str() {
                keyword if UNCONSTRAINING.contains(&keyword) => true,
                "$ref" => {
                    let pointer = constraint.as_str().unwrap().trim_start_matches('#');
                    let referred = self.0.pointer(pointer).ok_or_else(|| format!("there is no {pointer}"))?;
                    self.value_fits(referred, value, at)?;
                    true
                }
                "oneOf" => listed().filter(|schema| self.value_fits(schema, value, at).is_ok()).count() == 1,
                "type" => match constraint {
                    Value::Array(kinds) => kinds.iter().any(|kind| is_a(kind, value)),
                    kind => is_a(kind, value),
                },
                "enum" => listed().any(|listed| listed == value),
                "minimum" => value.as_f64().is_none_or(|number| Some(number) >= constraint.as_f64()),
                "maximum" => value.as_f64().is_none_or(|number| Some(number) <= constraint.as_f64()),
                "required" => listed().all(|name| value.get(name.as_str().unwrap()).is_some()),
                "properties" => {
                    for (name, schema) in constraint.as_object().unwrap() {
                        if let Some(value) = value.get(name) {
                            self.value_fits(schema, value, &format!("{at}/{name}"))?;
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    assert_eq!(constraint, &Value::Bool(false));
                    let known = schema["properties"].as_object().unwrap();
                    value.as_object().is_none_or(|object| object.keys().all(|name| known.contains_key(name)))
                }
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.value_fits(constraint, item, &format!("{at}/{index}"))?;
                    }
                    true
                }
                _ => false,
            };
            if !fits {
                return Err(format!("at {at:?}: {keyword} is {constraint}, or unknown to this test: {value}"));
            }
        }
        Ok(())
    }
}

fn is_a(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
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
        let bad = json!([{}, [{}], [{ "n": "1" }], [{ "n": -1 }], [{ "n": 1, "of": "x" }], [{ "n": 1, "x": 1 }]]);
        for bad in bad.as_array().unwrap() {
            assert!(!fits(&rows, bad), "{bad}");
        }
        assert!(!fits(&json!({ "pattern": "x" }), &json!("x")), "an unknown keyword fits nothing");
    }
}
