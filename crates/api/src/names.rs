//! Labels, annotations and finalizers that Butler writes, spelled once.

/// Value of [`MANAGED_BY`] on everything that Butler owns.
pub const BUTLER: &str = "butler";
/// Who manages an object; Butler prunes only what carries `butler` here.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Team an object belongs to.
pub const TEAM: &str = "butler.butlerlabs.dev/team";
/// Name of the tenant cluster an object belongs to.
pub const TENANT: &str = "butler.butlerlabs.dev/tenant";
/// Namespace of the `TenantCluster` an object was made from.
pub const SOURCE_NAMESPACE: &str = "butler.butlerlabs.dev/source-namespace";
/// Name of the `TenantCluster` an object was made from.
pub const SOURCE_NAME: &str = "butler.butlerlabs.dev/source-name";
/// Environment of the team that a cluster belongs to.
pub const ENVIRONMENT: &str = "butler.butlerlabs.dev/environment";
/// Pool of workers an object belongs to.
pub const POOL: &str = "butler.butlerlabs.dev/pool";
/// Person who owns a cluster, as an e-mail address: an annotation, since those are no label values.
pub const OWNER: &str = "butler.butlerlabs.dev/owner";
/// Where the platform's own objects live.
pub const SYSTEM_NAMESPACE: &str = "butler-system";
/// Where clusters without a team live, unless `ButlerConfig` names another namespace.
pub const DEFAULT_TENANT_NAMESPACE: &str = "butler-tenants";
/// The only `ButlerConfig` that counts.
pub const BUTLER_CONFIG: &str = "butler";
/// Keeps a Team until its clusters and its namespace are gone.
pub const TEAM_FINALIZER: &str = "butler.butlerlabs.dev/team";
/// UID of the object that something was made for: names can be reused, UIDs cannot.
pub const OWNER_UID: &str = "butler.butlerlabs.dev/owner-uid";
/// Ends a deletion of a TenantCluster without waiting for what cannot be reached. Whatever its value.
pub const FORCE_DELETE: &str = "butler.butlerlabs.dev/force-delete";
/// Asks for another try of a TenantCluster that failed. Whatever its value; taken away once it was seen.
pub const RETRY: &str = "butler.butlerlabs.dev/retry";
/// What a cluster was granted of its team's limits, on its tenant namespace.
pub const GRANTED: &str = "butler.butlerlabs.dev/granted";
/// Where an object carries the hash of its plan.
pub const PLAN_HASH: &str = "butler.butlerlabs.dev/plan-hash";
/// What an object is for, in words.
pub const DESCRIPTION: &str = "butler.butlerlabs.dev/description";
/// Keeps a NetworkPool while addresses of it are held.
pub const POOL_FINALIZER: &str = "butler.butlerlabs.dev/networkpool";
/// Keeps an IPAllocation until its addresses have rested and it was kept for long enough.
pub const ALLOCATION_FINALIZER: &str = "butler.butlerlabs.dev/ipallocation";
/// NetworkPool that an object draws from.
pub const NETWORK_POOL: &str = "butler.butlerlabs.dev/network-pool";
/// Whether an IPAllocation was the first of its cluster (`initial`) or added on demand (`growth`).
pub const ALLOCATION_ROLE: &str = "butler.butlerlabs.dev/allocation-role";
/// Cluster API's `IPAddressClaim` that an IPAllocation was made for, by name; it takes the place of the cluster.
pub const ADDRESS_CLAIM: &str = "butler.butlerlabs.dev/address-claim";
/// Since when no Service uses the addresses of an IPAllocation.
pub const UNUSED_SINCE: &str = "butler.butlerlabs.dev/unused-since";
/// The label of Secrets that addons may read.
pub const FOR_ADDONS: &str = "butler.butlerlabs.dev/for-addons";
/// The annotation by which an addon takes over a release that somebody else installed.
pub const ADOPT: &str = "butler.butlerlabs.dev/adopt-release";
/// The annotation that says which version of the catalogue an addon may have while that version spreads over the fleet.
pub const CATALOGUE_VERSION: &str = "butler.butlerlabs.dev/catalogue-version";
/// Keeps an addon until its release is gone.
pub const ADDON_FINALIZER: &str = "butler.butlerlabs.dev/addon";
/// The annotation of a TenantCluster by which its user agrees that addons which it no longer wants are removed: their
/// names in the catalogue with commas between them, such as `longhorn,traefik`.
pub const REMOVE_ADDONS: &str = "butler.butlerlabs.dev/remove-addons";
/// The annotation of an addon with the addresses that a load balancer may give out, as ranges with commas between them.
pub const ADDRESS_RANGES: &str = "butler.butlerlabs.dev/address-ranges";
/// What an addon of a TenantCluster is for, such as `cni`.
pub const ADDON_ROLE: &str = "butler.butlerlabs.dev/addon-role";
