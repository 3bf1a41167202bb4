//! The part of etcd's v3 protocol that stores need: messages, their field numbers, and the names of calls.
//!
//! Written by hand instead of generated: it is small, its numbers are fixed for ever by etcd's promise of
//! compatibility, and a generator would need `protoc` wherever Butler is built. Fields that nobody here reads are
//! left out; decoding skips them.

/// Calls, by their path.
pub(crate) mod path {
    pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
    pub(crate) const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
    pub(crate) const TXN: &str = "/etcdserverpb.KV/Txn";
    pub(crate) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
    pub(crate) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
    pub(crate) const AUTH_STATUS: &str = "/etcdserverpb.Auth/AuthStatus";
    pub(crate) const USER_ADD: &str = "/etcdserverpb.Auth/UserAdd";
    pub(crate) const USER_GET: &str = "/etcdserverpb.Auth/UserGet";
    pub(crate) const USER_DELETE: &str = "/etcdserverpb.Auth/UserDelete";
    pub(crate) const USER_GRANT_ROLE: &str = "/etcdserverpb.Auth/UserGrantRole";
    pub(crate) const USER_REVOKE_ROLE: &str = "/etcdserverpb.Auth/UserRevokeRole";
    pub(crate) const ROLE_ADD: &str = "/etcdserverpb.Auth/RoleAdd";
    pub(crate) const ROLE_GET: &str = "/etcdserverpb.Auth/RoleGet";
    pub(crate) const ROLE_DELETE: &str = "/etcdserverpb.Auth/RoleDelete";
    pub(crate) const ROLE_GRANT: &str = "/etcdserverpb.Auth/RoleGrantPermission";
    pub(crate) const ROLE_REVOKE: &str = "/etcdserverpb.Auth/RoleRevokePermission";

    /// Whether a call changes a user or a role.
    pub(crate) fn changes_auth(path: &str) -> bool {
        [
            USER_ADD,
            USER_DELETE,
            USER_GRANT_ROLE,
            USER_REVOKE_ROLE,
            ROLE_ADD,
            ROLE_DELETE,
            ROLE_GRANT,
            ROLE_REVOKE,
        ]
        .contains(&path)
    }
}

/// An answer of which only the arrival matters, and a request without fields.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Empty {}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// Empty: the key alone.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    /// Answered by one member from what it knows, without asking the others.
    #[prost(bool, tag = "7")]
    pub(crate) serializable: bool,
    #[prost(bool, tag = "8")]
    pub(crate) keys_only: bool,
    #[prost(bool, tag = "9")]
    pub(crate) count_only: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(crate) more: bool,
    #[prost(int64, tag = "4")]
    pub(crate) count: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct DeleteRangeResponse {
    #[prost(int64, tag = "2")]
    pub(crate) deleted: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<RequestOp>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct TxnResponse {
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
}

/// A condition of a transaction; only equality is used, which is the zero of `result`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Compare {
    #[prost(int32, tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) key: Vec<u8>,
    /// Present also when it is zero, which means that there is no such key.
    #[prost(int64, optional, tag = "6")]
    pub(crate) mod_revision: Option<i64>,
}

/// `Compare::target` of a modification revision.
const TARGET_MOD: i32 = 2;

impl Compare {
    /// The key was last changed at this revision; 0 for a key that is not there.
    pub(crate) fn unchanged(key: Vec<u8>, mod_revision: i64) -> Self {
        Self {
            target: TARGET_MOD,
            key,
            mod_revision: Some(mod_revision),
        }
    }
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct RequestOp {
    #[prost(oneof = "Op", tags = "2, 3")]
    pub(crate) op: Option<Op>,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub(crate) enum Op {
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct StatusResponse {
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(int64, tag = "3")]
    pub(crate) db_size: i64,
    /// Alarms, such as `NOSPACE`.
    #[prost(string, repeated, tag = "8")]
    pub(crate) errors: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(crate) db_size_in_use: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct AuthStatusResponse {
    #[prost(bool, tag = "2")]
    pub(crate) enabled: bool,
    #[prost(uint64, tag = "3")]
    pub(crate) revision: u64,
}

/// A request that names a user or a role: the field has the same number in all of them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Named {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct UserAddRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) options: Option<UserAddOptions>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct UserAddOptions {
    /// Certificates only.
    #[prost(bool, tag = "1")]
    pub(crate) no_password: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct UserGetResponse {
    #[prost(string, repeated, tag = "2")]
    pub(crate) roles: Vec<String>,
}

/// Grants or revokes a role of a user.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct UserRoleRequest {
    #[prost(string, tag = "1")]
    pub(crate) user: String,
    #[prost(string, tag = "2")]
    pub(crate) role: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct RoleGetResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) permissions: Vec<Permission>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Permission {
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) range_end: Vec<u8>,
}

/// `Permission::kind` of reading and writing.
pub(crate) const READ_WRITE: i32 = 2;

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct RoleGrantRequest {
    #[prost(string, tag = "1")]
    pub(crate) role: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) permission: Option<Permission>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct RoleRevokeRequest {
    #[prost(string, tag = "1")]
    pub(crate) role: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) range_end: Vec<u8>,
}
