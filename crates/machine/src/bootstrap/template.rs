//! The first lines of bootstrap data, and the jinja that whoever plays cloud-init fills in. Pure.

use minijinja::{Environment, UndefinedBehavior, context};

use super::{Error, Metadata};

const TEMPLATE: &str = "## template:";
const CLOUD_CONFIG: &str = "#cloud-config";

/// The cloud-config, with every question about the machine answered.
pub(super) fn fill_in(text: &str, metadata: &Metadata) -> Result<String, Error> {
    let Some(rest) = text.strip_prefix(TEMPLATE) else {
        return check(text).map(|()| text.to_owned());
    };
    let (engine, body) = rest.split_once('\n').unwrap_or((rest, ""));
    if engine.trim() != "jinja" {
        let reason = "its first line names another engine than jinja".to_owned();
        return Err(Error::Template { reason });
    }
    check(body)?;
    let mut engine = Environment::empty();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_keep_trailing_newline(true);
    let Metadata {
        instance_id,
        hostname,
        address,
    } = metadata;
    let address = address.to_string();
    let answers = context! {
        instance_id, hostname,
        local_hostname => hostname,
        local_ipv4 => address,
        cloud_name => "local",
    };
    let values = context! {
        ds => context! { meta_data => answers },
        v1 => context! {
            instance_id,
            local_hostname => hostname,
            cloud_name => "local",
            platform => "local",
        },
        instance_id,
        local_hostname => hostname,
    };
    // The engine's own words may repeat the line, so only its number and kind are told.
    let failed = |error: minijinja::Error| Error::Template {
        reason: error.line().map_or_else(
            || error.kind().to_string(),
            |line| format!("line {}: {}", line + 1, error.kind()),
        ),
    };
    engine.render_str(body, values).map_err(failed)
}

/// Says what text is that is no cloud-config.
fn check(text: &str) -> Result<(), Error> {
    let first = text.lines().find(|line| !line.trim().is_empty());
    let found = match first.map(str::trim_end) {
        Some(CLOUD_CONFIG) => return Ok(()),
        None => "empty",
        Some(line) if line.starts_with("#!") => "a script",
        Some(line) if line.starts_with("Content-Type:") || line.starts_with("MIME-Version:") => {
            "a multi-part message"
        }
        Some(line) if line.starts_with('{') => "JSON, as for Ignition",
        Some(line) if line.starts_with("#include") => "a list of addresses to fetch",
        Some(_) => "something else, without #cloud-config in its first line",
    };
    Err(Error::Format { found })
}
