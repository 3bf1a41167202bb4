//! `export`: the addons of a cluster as files for Flux, for a Git repository or for standard output.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use butler_addons::{
    flux::{self, Export as Files, MARK},
    manifest::yaml,
};
use butler_api::butler::{AddonDefinition, TenantAddon};
use butler_controller::tenant_addon::export::addons;
use kube::{Api, api::ListParams};

use super::super::{
    connection::{Access, Connection, within},
    failure::{Code, Failure},
    output,
};

/// Which cluster, and where it is written.
#[derive(clap::Args)]
pub(crate) struct Export {
    /// Name of the cluster
    name: String,
    /// Folder of a Git checkout to write files into; without it all objects are written to standard output. Files that
    /// an earlier export wrote are replaced, others are not
    #[arg(short = 'd', long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Folder of the repository that Flux follows [default: clusters/NAME]
    #[arg(long, value_name = "PATH", requires = "output_dir")]
    path: Option<String>,
}

pub(crate) async fn run(args: &Export, access: &Access) -> Result<(), Failure> {
    let connection = access.connect().await?;
    connection.cluster(&args.name).await?;
    let files = gather(args, &connection).await?;
    if let Some(folder) = &args.output_dir {
        write(folder, &files)?;
    } else {
        let documents: Vec<String> = files.objects.iter().map(yaml).collect();
        output::bytes(documents.join("---\n").as_bytes())?;
    }
    for note in &files.notes {
        eprintln!("note: {note}");
    }
    Ok(())
}

fn write(folder: &Path, files: &Files) -> Result<(), Failure> {
    refuse_others(folder, files)?;
    for file in &files.files {
        let path = folder.join(&file.path);
        store(&path, &file.content).map_err(|error| {
            Failure::new(
                Code::Failed,
                format!("could not write {}: {error}", path.display()),
            )
        })?;
        output::line(&path.display().to_string())?;
    }
    Ok(())
}

async fn gather(args: &Export, connection: &Connection) -> Result<Files, Failure> {
    let (client, all) = (&connection.client, ListParams::default());
    let title = connection.title(&args.name);
    let held: Api<TenantAddon> = Api::namespaced(client.clone(), &connection.namespace);
    let what = format!("list TenantAddons of {title}");
    let held = within(&what, held.list(&all)).await?;
    let catalogue: Api<AddonDefinition> = Api::all(client.clone());
    let catalogue = within("list AddonDefinitions", catalogue.list(&all)).await?;
    let held = addons(&args.name, held.items, catalogue.items)
        .map_err(|error| Failure::refused(error.to_string()))?;
    let usual = || format!("clusters/{}", args.name);
    let path = args.path.clone().unwrap_or_else(usual);
    flux::export(&args.name, &path, &held).map_err(|error| match error {
        flux::ExportError::Folder(_) => Failure::usage(error.to_string()),
        flux::ExportError::Empty => Failure::new(
            Code::NotFound,
            format!("there is nothing to export of {title}: it has no TenantAddons"),
        ),
        flux::ExportError::Missing { .. } => {
            Failure::refused(format!("could not export {title}: {error}"))
        }
    })
}

/// Nothing is written when a file of somebody else is in the way.
fn refuse_others(folder: &Path, files: &Files) -> Result<(), Failure> {
    for file in &files.files {
        let path = folder.join(&file.path);
        let held = match fs::read_to_string(&path) {
            Ok(held) => held,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                let text = format!("could not read {}: {error}", path.display());
                return Err(Failure::new(Code::Failed, text));
            }
        };
        let first = held.lines().next().unwrap_or_default();
        if !first.contains(MARK) {
            return Err(Failure::refused(format!(
                "{} was not written by an export: move it away, or give another --output-dir or --path; nothing was written",
                path.display()
            )));
        }
    }
    Ok(())
}

fn store(path: &Path, content: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)
}
