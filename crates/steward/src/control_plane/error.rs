//! What can go wrong with a control plane, and at which stage.

use butler_pki::key::KeyError;
use butler_runtime::error::{ApiError, Category, Classify};

use super::certificates::CertificateError;
use crate::{store, tenant::objects::PatchError};

/// Why a control plane could not be brought to its spec.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The management cluster's API server refused or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The store refused or did not answer.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Certificates could not be made or written.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// There is no chance to make a key from.
    #[error("could not make a key for encryption")]
    Key(#[from] KeyError),
    /// The patches of kubelets' configuration do not fit it.
    #[error(transparent)]
    Kubelet(#[from] PatchError),
    /// The object has no identity.
    #[error("the object was not read from an API server")]
    Identity,
}

impl Error {
    /// The condition that speaks about it.
    pub(super) fn stage(&self) -> &'static str {
        match self {
            Self::Api(_) => "WorkloadReady",
            Self::Store(_) => "StoreReady",
            Self::Certificates(_) => "CertificatesReady",
            Self::Key(_) => "SettingsReady",
            Self::Kubelet(_) => "TenantReady",
            Self::Identity => "SpecValid",
        }
    }
}

impl Classify for Error {
    fn category(&self) -> Category {
        match self {
            Self::Api(error) | Self::Certificates(CertificateError::Api(error)) => error.category(),
            Self::Store(error) => error.category(),
            Self::Certificates(CertificateError::Issue(_)) | Self::Key(_) => Category::Internal,
            Self::Certificates(CertificateError::Taken(_)) | Self::Kubelet(_) | Self::Identity => {
                Category::Invalid
            }
        }
    }
}
