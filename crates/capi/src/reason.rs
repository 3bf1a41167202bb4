//! The words by which conditions of a tenant cluster say why, and what each means for its user: to wait or to act.

use serde::Serialize;

/// Who has the next move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Retry {
    /// Nobody: all is well.
    Unneeded,
    /// Butler: it is tried or looked at again until it is right.
    Waits,
    /// The user, or whoever runs the platform: nothing gets better before something is changed.
    NeedsChange,
}

/// Every reason, by who has the next move. Conditions carry the words as they are here.
macro_rules! reasons {
    ($($retry:ident { $($reason:ident),+ $(,)? })+) => {
        /// Why a condition is what it is.
        #[expect(missing_docs, reason = "the word is what users read, and says it")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum Reason {
            $($($reason,)+)+
        }

        impl Reason {
            /// All of them.
            pub const ALL: &[Self] = &[$($(Self::$reason,)+)+];

            /// The word in a condition.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($(Self::$reason => stringify!($reason),)+)+
                }
            }

            /// Who has the next move.
            pub const fn retry(self) -> Retry {
                match self {
                    $($(Self::$reason => Retry::$retry,)+)+
                }
            }
        }
    };
}

reasons! {
    Unneeded {
        Provisioned,
        ControlPlaneReady,
        WorkersReady,
        AddonsInstalled,
        Observed,
        NoWorkers,
        Hibernated,
        Ready,
        WithinQuota,
        OwnAddresses,
        CloudNetworking,
        LocalNetworking,
        Allocated,
        NotNeeded,
        Deleted,
    }
    Waits {
        InfrastructureProvisioning,
        Creating,
        Upgrading,
        WorkersProvisioning,
        Pending,
        Installing,
        CNIInstallFailed,
        AddonInstallFailed,
        Updating,
        Waiting,
        DeletingAddons,
        DeletingServicesAndVolumes,
        GivenUp,
        DeletingMachines,
        DeletingControlPlane,
        DeletingNamespace,
        Conflict,
        Unavailable,
        Internal,
    }
    NeedsChange {
        ActionNeeded,
        RolloutFailed,
        Failed,
        Invalid,
        Forbidden,
        NotFound,
        NamespaceMismatch,
        ProviderNotFound,
        ProviderDenied,
        ProviderNotAllowed,
        VersionNotAllowed,
        QuotaExceeded,
        EnvQuotaExceeded,
        PerMemberCapExceeded,
        PoolExhausted,
        QuotaReached,
        NoPool,
        ClusterAPIMissing,
        Paused,
        DeletionProtected,
        DeletionLate,
    }
}

impl Reason {
    /// The reason that a word in a condition stands for; none for a word of another version of Butler.
    pub fn parse(word: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|reason| reason.as_str() == word)
    }
}
