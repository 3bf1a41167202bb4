//! The 22 rules of Cluster API's v1beta2 contract for control planes: one test for each, called after it, in the order
//! of the contract. Where a rule is optional and does not apply, the test shows what happens instead.
//!
//! The names of the rules are the headings of the contract's own table.

mod definitions;
mod lifecycle;
mod secrets;
mod status;

use kube::{
    Api,
    api::{DynamicObject, ListParams},
};
use serde_json::Value;

/// The condition of this type, as JSON.
fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let held = object["status"]["conditions"].as_array();
    let mut held = held.into_iter().flatten();
    held.find(|held| held["type"] == type_)
        .unwrap_or(&Value::Null)
}

/// The condition's status and reason.
fn verdict<'a>(object: &'a Value, type_: &str) -> (&'a str, &'a str) {
    let text = |field: &str| condition(object, type_)[field].as_str().unwrap_or_default();
    (text("status"), text("reason"))
}

async fn count(api: &Api<DynamicObject>) -> usize {
    let list = api.list(&ListParams::default()).await;
    list.expect("the kind is served").items.len()
}
