//! The `CustomResourceDefinition` of every kind, as it is written to `crds/`.
//!
//! `kube-derive` makes the schemas; what it cannot say is added here, once for all kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// Every custom resource definition, in the order of their names.
pub fn all() -> Vec<CustomResourceDefinition> {
    let groups = [
        crate::butler::crds(),
        crate::steward::crds(),
        crate::controlplane::crds(),
        crate::infrastructure::crds(),
    ];
    let mut crds: Vec<_> = groups.into_iter().flatten().map(tidy).collect();
    crds.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    crds
}

/// Makes a derived definition say what a hand-written one would.
fn tidy(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let schemas = crd
        .spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut());
    for schema in schemas.filter_map(|validation| validation.open_api_v3_schema.as_mut()) {
        tidy_schema(schema);
        declare_name(schema);
    }
    crd
}

/// Declares `metadata.name`, so that a rule on the name can be reported under that field.
fn declare_name(root: &mut JSONSchemaProps) {
    let declared = |kind: &str| JSONSchemaProps {
        type_: Some(kind.into()),
        ..JSONSchemaProps::default()
    };
    let properties = root.properties.get_or_insert_default();
    let metadata = properties
        .entry("metadata".into())
        .or_insert_with(|| declared("object"));
    metadata
        .properties
        .get_or_insert_default()
        .insert("name".into(), declared("string"));
}

/// Gives 32-bit integers their limits.
///
/// The API server does not look at the format: it would store a larger number, which no typed watch could
/// read any more, and with it none of the other objects of the kind.
fn bound_int32(schema: &mut JSONSchemaProps) {
    if schema.format.as_deref() == Some("int32") {
        schema.minimum.get_or_insert_with(|| i32::MIN.into());
        schema.maximum.get_or_insert_with(|| i32::MAX.into());
    }
}

/// Removes `nullable` and `title` from a schema and everything below it, and the line breaks that doc
/// comments have in the source, which `kubectl explain` would print in the middle of its own lines.
///
/// A nullable field is present and null at once: `has(self.x)` is true and every rule on `self.x` fails
/// with an evaluation error instead of its message. Without it an explicit null is refused by name, or
/// replaced by the default where there is one.
fn tidy_schema(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.title = None;
    bound_int32(schema);
    if let Some(description) = &mut schema.description {
        let paragraphs: Vec<_> = description
            .split("\n\n")
            .map(|text| text.replace('\n', " "))
            .collect();
        *description = paragraphs.join("\n\n");
    }
    let properties = schema
        .properties
        .iter_mut()
        .flat_map(|map| map.values_mut());
    properties.for_each(tidy_schema);
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        tidy_schema(values);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => tidy_schema(item),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(tidy_schema),
        None => {}
    }
}
