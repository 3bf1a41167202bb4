//! The kubeconfig files around one credential: how they are written, and whether held ones may stay.

use zeroize::Zeroizing;

use crate::{
    authority::Authority,
    issue::{IssueError, Maker},
    judge::{Dates, File, Leaf, Signer, garbage},
    kubeconfig::Kubeconfig,
    layout::Content,
    plan::Action,
    profile::Profile,
    reason::Reason,
};

/// One credential in one or more files, which differ by the server.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) cluster: String,
    pub(crate) user: String,
    pub(crate) context: String,
    /// Key in the Secret and the server in it.
    pub(crate) servers: Vec<(String, String)>,
}

impl Files {
    /// The kubeconfigs for one credential.
    pub(crate) fn write(
        &self,
        bundle: &str,
        certificate: &[u8],
        key: &[u8],
    ) -> Vec<(String, Kubeconfig)> {
        let one = |(file, server): &(String, String)| {
            let config = Kubeconfig {
                cluster: self.cluster.clone(),
                user: self.user.clone(),
                context: self.context.clone(),
                server: server.clone(),
                authority: bundle.as_bytes().to_vec(),
                certificate: certificate.to_vec(),
                key: key.to_vec().into(),
            };
            (file.clone(), config)
        };
        self.servers.iter().map(one).collect()
    }

    /// The first of the files that can be read, or why none can.
    pub(crate) fn credential<'b>(
        &self,
        text: impl Fn(&str) -> Option<&'b [u8]>,
    ) -> Result<Kubeconfig, Reason> {
        let mut problem = Reason::Missing;
        for (file, _) in &self.servers {
            match text(file).map(Kubeconfig::from_yaml) {
                Some(Ok(config)) => return Ok(config),
                Some(Err(error)) => problem = garbage(file, &error),
                None => (),
            }
        }
        Err(problem)
    }

    fn first(&self) -> String {
        self.servers
            .first()
            .map(|(file, _)| file.clone())
            .unwrap_or_default()
    }

    /// What becomes of the files, given how their certificate is judged.
    pub(crate) fn judge<'b>(
        &self,
        leaf: &Leaf<'_>,
        text: impl Fn(&str) -> Option<&'b [u8]>,
    ) -> (Action, Dates) {
        let held = match self.credential(&text) {
            Ok(held) => held,
            Err(reason) => return (leaf.answer(reason), Dates::default()),
        };
        let certificate = File {
            name: "client-certificate-data",
            text: Some(&held.certificate),
        };
        let key = File {
            name: "client-key-data",
            text: Some(&held.key),
        };
        let dates = match leaf.judge(certificate, key) {
            Ok(dates) => dates,
            Err(reason) => return (leaf.answer(reason), Dates::default()),
        };
        let bundle = match leaf.signer {
            Signer::Stands(authority) => authority.bundle(),
            Signer::Renewed(_) => {
                return (
                    Action::Rewrite {
                        reason: Reason::AuthorityRenewed,
                    },
                    dates,
                );
            }
            Signer::Replaced | Signer::Unusable => return (Action::Keep, dates),
        };
        for (file, wanted) in self.write(&bundle, &held.certificate, &held.key) {
            let reason = match text(&file).map(Kubeconfig::from_yaml) {
                Some(Ok(found)) if found == wanted => continue,
                Some(Ok(found)) if found.server != wanted.server => Reason::Server {
                    from: found.server,
                    to: wanted.server,
                },
                Some(Ok(found)) if found.authority != wanted.authority => Reason::AuthorityRenewed,
                Some(Ok(_)) | None => Reason::Layout,
                Some(Err(error)) => garbage(&file, &error),
            };
            return (Action::Rewrite { reason }, dates);
        }
        (Action::Keep, dates)
    }

    /// Writes the files: around the held credential, or around a new one.
    pub(crate) fn make(
        &self,
        action: &Action,
        content: &mut Content,
        profile: &Profile,
        authority: &Authority,
        maker: &mut Maker<'_>,
    ) -> Result<(), IssueError> {
        let (certificate, key) = match action {
            Action::Issue { .. } => {
                let (certificate, key) = maker.pair(profile, authority)?;
                (
                    certificate.into_bytes(),
                    Zeroizing::new(key.to_pem().as_bytes().to_vec()),
                )
            }
            Action::Keep | Action::Rewrite { .. } | Action::Blocked { .. } => {
                let held = self
                    .credential(|name| content.file(name))
                    .map_err(|problem| IssueError::Stale {
                        file: self.first(),
                        problem,
                    })?;
                (held.certificate, held.key)
            }
        };
        for (file, config) in self.write(&authority.bundle(), &certificate, &key) {
            content.put(&file, config.to_yaml());
        }
        Ok(())
    }
}
