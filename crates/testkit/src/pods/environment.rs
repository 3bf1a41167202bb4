//! The environment and the command line of a container.

use k8s_openapi::api::core::v1::{Container, EnvVarSource};

use super::sources::{Data, Refusal, Sources};

/// Variables in the order they were given; a later one of the same name wins.
pub(super) type Environment = Vec<(String, String)>;

/// What a container finds in its environment.
pub(super) async fn of(
    sources: &Sources<'_>,
    container: &Container,
) -> Result<Environment, Refusal> {
    let mut variables = Environment::new();
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    set(&mut variables, "PATH", path.to_owned());
    set(&mut variables, "HOSTNAME", sources.field("metadata.name")?);
    for from in container.env_from.iter().flatten() {
        let data = if let Some(secret) = &from.secret_ref {
            sources
                .secret(&secret.name, secret.optional == Some(true))
                .await?
        } else if let Some(map) = &from.config_map_ref {
            sources
                .config_map(&map.name, map.optional == Some(true))
                .await?
        } else {
            Data::new()
        };
        let prefix = from.prefix.as_deref().unwrap_or_default();
        for (key, value) in data {
            set(&mut variables, &format!("{prefix}{key}"), text(value));
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), _) => Some(expand(value, &variables)),
            (None, Some(source)) => read(sources, &variable.name, source).await?,
            (None, None) => Some(String::new()),
        };
        if let Some(value) = value {
            set(&mut variables, &variable.name, value);
        }
    }
    Ok(variables)
}

async fn read(
    sources: &Sources<'_>,
    name: &str,
    source: &EnvVarSource,
) -> Result<Option<String>, Refusal> {
    if let Some(field) = &source.field_ref {
        return sources.field(&field.field_path).map(Some);
    }
    let (data, key, optional) = if let Some(secret) = &source.secret_key_ref {
        let optional = secret.optional == Some(true);
        (
            sources.secret(&secret.name, optional).await?,
            &secret.key,
            optional,
        )
    } else if let Some(map) = &source.config_map_key_ref {
        let optional = map.optional == Some(true);
        (
            sources.config_map(&map.name, optional).await?,
            &map.key,
            optional,
        )
    } else {
        let message = format!("variable {name}: its source is of a kind this runner lacks");
        return Err(Refusal::config(message));
    };
    match data.get(key) {
        Some(value) => Ok(Some(text(value.clone()))),
        None if optional => Ok(None),
        None => Err(Refusal::config(format!("variable {name}: no key {key:?}"))),
    }
}

fn set(variables: &mut Environment, name: &str, value: String) {
    variables.retain(|(held, _)| held != name);
    variables.push((name.to_owned(), value));
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

/// The program and its arguments; `entrypoint` is what the image would run.
pub(super) fn command_line(
    container: &Container,
    entrypoint: &str,
    variables: &Environment,
) -> Vec<String> {
    let command = container.command.clone().unwrap_or_default();
    let command = if command.is_empty() {
        vec![entrypoint.to_owned()]
    } else {
        command
    };
    let arguments = container.args.clone().unwrap_or_default();
    let words = command.iter().chain(&arguments);
    words.map(|word| expand(word, variables)).collect()
}

/// Puts variables where `$(NAME)` stands; `$$(NAME)` and unknown names stay as text.
fn expand(text: &str, variables: &Environment) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, dollar) = rest.split_at(at);
        expanded.push_str(before);
        if let Some(after) = dollar.strip_prefix("$$") {
            expanded.push('$');
            rest = after;
            continue;
        }
        let name = dollar
            .strip_prefix("$(")
            .and_then(|name| name.split_once(')'));
        let known = name.and_then(|(name, after)| {
            let found = variables.iter().find(|(held, _)| held == name)?;
            Some((&found.1, after))
        });
        if let Some((value, after)) = known {
            expanded.push_str(value);
            rest = after;
        } else {
            expanded.push('$');
            rest = dollar.strip_prefix('$').unwrap_or_default();
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_into_arguments_and_doubled_dollars_are_not() {
        let variables = vec![("A".to_owned(), "1".to_owned())];
        let expanded = |text| expand(text, &variables);
        assert_eq!(expanded("--a=$(A),$(A)"), "--a=1,1");
        assert_eq!(expanded("$$(A) $(B) $A $"), "$(A) $(B) $A $");
    }

    #[test]
    fn a_container_without_a_command_runs_what_its_image_says() {
        let container = Container {
            args: Some(vec!["--x".to_owned()]),
            ..Container::default()
        };
        let line = command_line(&container, "/bin/it", &Environment::new());
        assert_eq!(line, ["/bin/it", "--x"]);
    }
}
