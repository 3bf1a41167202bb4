//! Who a client is to the API server.

/// A user and their groups, as RBAC sees them.
///
/// ```
/// use butler_testkit::User;
/// let alice = User::named("alice@example.com").in_group("platform");
/// assert_eq!(alice.groups(), ["platform"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    groups: Vec<String>,
}

impl User {
    /// A user without groups (the server adds `system:authenticated`).
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            groups: Vec::new(),
        }
    }

    /// The user every rule lets through.
    pub fn admin() -> Self {
        Self::named("testkit-admin").in_group("system:masters")
    }

    /// A service account, as a pod that runs with it would appear.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::named(format!("system:serviceaccount:{namespace}:{name}"))
            .in_group("system:serviceaccounts")
            .in_group(format!("system:serviceaccounts:{namespace}"))
    }

    /// The same user in one more group.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }

    /// The user name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The groups, in the order they were given.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }
}
