//! The images of addons that are installed for real on a platform without an internet.

use butler_toolchain::Toolchain;

use crate::{
    catalog::{CatalogError, KUBERNETES, named, pinned, system_program, written},
    recipe::Recipe,
};

/// What makes and removes folders of volumes on nodes, for the provisioner of local paths: a shell and two programs. Its
/// makers take whatever busybox is newest; this one says what it is.
pub const VOLUME_HELPER: (&str, &str) = ("ghcr.io/butlerdotdev/volume-helper", "v1");

/// All of them.
pub(crate) fn recipes(toolchain: &Toolchain) -> Result<Vec<Recipe>, CatalogError> {
    Ok(vec![
        metrics_server(toolchain)?,
        local_path_provisioner(toolchain)?,
        volume_helper()?,
    ])
}

fn metrics_server(toolchain: &Toolchain) -> Result<Recipe, CatalogError> {
    let name = "metrics-server";
    let reference = named(
        KUBERNETES,
        "metrics-server/metrics-server",
        &pinned(toolchain, name),
    );
    let program = toolchain.binary(name, None)?;
    Ok(Recipe::program(vec![reference], "/metrics-server", program))
}

fn local_path_provisioner(toolchain: &Toolchain) -> Result<Recipe, CatalogError> {
    let name = "local-path-provisioner";
    let repository = format!("rancher/{name}");
    let reference = named("docker.io", &repository, &pinned(toolchain, name));
    let program = toolchain.binary(name, None)?;
    // Its chart starts it by name.
    let target = format!("/usr/bin/{name}");
    Ok(Recipe::program(vec![reference], &target, program))
}

fn volume_helper() -> Result<Recipe, CatalogError> {
    let (repository, tag) = VOLUME_HELPER;
    let shell = "/usr/bin/dash";
    let mut recipe = Recipe::program(
        vec![written(&format!("{repository}:{tag}"))],
        shell,
        shell.into(),
    )
    .with(system_program("dash", "dash")?)
    .with(system_program("mkdir", "coreutils")?)
    .with(system_program("rm", "coreutils")?);
    recipe.links.push(("/bin/sh".to_owned(), shell.to_owned()));
    Ok(recipe)
}
