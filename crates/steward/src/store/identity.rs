//! What a tenant is called inside a store: its prefix, its role and its user.
//!
//! Pure. Names come from the tenant's UID, which no other object ever has. Names joined from namespace and
//! name are never made here: `a-b`/`c` and `a`/`b-c` would become the same.

use std::fmt::{self, Write as _};

use sha2::{Digest as _, Sha256};

/// How every name that is made here begins.
const STEM: &str = "steward-";
/// etcd's own administrator: the user and the role of this name can read every tenant.
pub(crate) const ADMINISTRATOR: &str = "root";
/// What the schema of the API allows for names.
const LONGEST: usize = 127;

/// The object that a part of a store belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Namespace of the tenant.
    pub namespace: String,
    /// Name of the tenant.
    pub name: String,
    /// UID of the tenant.
    pub uid: String,
}

impl fmt::Display for Owner {
    /// A slash cannot be part of either name, so two tenants never read the same.
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(text, "{}/{}", self.namespace, self.name)
    }
}

/// Names that are written down somewhere, where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Name of the tenant's part of the store.
    pub schema: Option<String>,
    /// Name of the tenant's user.
    pub user: Option<String>,
}

/// Where a name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Made from the UID: nobody else can have it.
    Derived,
    /// Found in status: it was set up before, perhaps by another implementation.
    Recorded,
    /// Wished for in spec: somebody else may have it already.
    Asked,
}

/// A tenant's place in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    owner: Owner,
    schema: (String, Origin),
    user: (String, Origin),
}

/// A name that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a name.
    #[error(
        "{field} {name:?} cannot be a name in a store: use up to {LONGEST} letters, digits, underscores and \
         dashes, and do not start with a dash"
    )]
    Malformed {
        /// Where the name was found.
        field: &'static str,
        /// The name.
        name: String,
    },
    /// The administrator's name.
    #[error("{field} {name:?} is the name of the store's administrator, who can read every tenant")]
    Reserved {
        /// Where the name was found.
        field: &'static str,
        /// The name.
        name: String,
    },
}

impl Identity {
    /// The names of a tenant: what status recorded wins over what spec asks for, and that over the UID.
    ///
    /// # Errors
    /// When a name is malformed or belongs to the store's administrator.
    pub fn of(owner: Owner, recorded: &Chosen, asked: &Chosen) -> Result<Self, Error> {
        let derived = format!("{STEM}{}", owner.uid);
        parse("metadata.uid", &derived)?;
        let pick = |recorded: &Option<String>, asked: &Option<String>, field| {
            let (name, origin) = match (recorded, asked) {
                (Some(name), _) => (name, Origin::Recorded),
                (None, Some(name)) => (name, Origin::Asked),
                (None, None) => (&derived, Origin::Derived),
            };
            parse(field, name)?;
            let origin = if *name == derived {
                Origin::Derived
            } else {
                origin
            };
            Ok((name.clone(), origin))
        };
        Ok(Self {
            schema: pick(&recorded.schema, &asked.schema, "dataStoreSchema")?,
            user: pick(&recorded.user, &asked.user, "dataStoreUsername")?,
            owner,
        })
    }

    /// The tenant.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Name of the tenant's part of the store, for `status.storage.setup.schema`.
    pub fn schema(&self) -> &str {
        &self.schema.0
    }

    /// Where the schema's name comes from.
    pub fn schema_origin(&self) -> Origin {
        self.schema.1
    }

    /// Name of the tenant's user: the common name of its client certificate.
    pub fn user(&self) -> &str {
        &self.user.0
    }

    /// Where the user's name comes from.
    pub fn user_origin(&self) -> Origin {
        self.user.1
    }

    /// Name of the tenant's role.
    pub fn role(&self) -> &str {
        self.schema()
    }

    /// The value of kube-apiserver's `--etcd-prefix`, which adds the slash itself.
    pub fn etcd_prefix(&self) -> String {
        format!("/{}", self.schema())
    }

    /// What every key of the tenant begins with. The slash at the end keeps `/a` apart from `/aa`.
    pub fn prefix(&self) -> Vec<u8> {
        format!("/{}/", self.schema()).into_bytes()
    }

    /// The first key after those of the tenant: `0` follows `/`.
    pub fn range_end(&self) -> Vec<u8> {
        format!("/{}0", self.schema()).into_bytes()
    }

    /// A short text that changes when the names do, for `status.storage.setup.checksum`.
    pub fn checksum(&self) -> String {
        let mut hash = Sha256::new();
        for part in [self.schema(), self.user(), self.owner.uid.as_str()] {
            hash.update(part);
            hash.update([0]);
        }
        hex(&hash.finalize())
    }
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes every write");
        text
    })
}

fn parse(field: &'static str, name: &str) -> Result<(), Error> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let well_formed = !name.is_empty()
        && name.len() <= LONGEST
        && !name.starts_with('-')
        && name.bytes().all(allowed)
        // A missing UID would give every such tenant the same name.
        && name != STEM;
    let name = name.to_owned();
    match well_formed {
        false => Err(Error::Malformed { field, name }),
        true if name == ADMINISTRATOR => Err(Error::Reserved { field, name }),
        true => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owner(namespace: &str, name: &str, uid: &str) -> Owner {
        Owner {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }

    fn derived(namespace: &str, name: &str, uid: &str) -> Identity {
        Identity::of(
            owner(namespace, name, uid),
            &Chosen::default(),
            &Chosen::default(),
        )
        .unwrap()
    }

    fn chosen(schema: &str) -> Chosen {
        Chosen {
            schema: Some(schema.to_owned()),
            user: None,
        }
    }

    #[test]
    fn names_that_look_alike_when_joined_stay_apart() {
        let one = derived("a-b", "c", "1");
        let other = derived("a", "b-c", "2");
        assert_ne!(one.prefix(), other.prefix());
        assert_ne!(one.user(), other.user());
        assert_ne!(one.checksum(), other.checksum());
    }

    #[test]
    fn what_was_recorded_wins_over_the_wish_and_the_wish_over_the_uid() {
        let owner = owner("a", "b", "1");
        let recorded = Identity::of(owner.clone(), &chosen("a_b"), &chosen("mine")).unwrap();
        assert_eq!(recorded.schema(), "a_b");
        assert_eq!(recorded.schema_origin(), Origin::Recorded);
        assert_eq!(recorded.user(), "steward-1");
        let asked = Identity::of(owner.clone(), &Chosen::default(), &chosen("mine")).unwrap();
        assert_eq!(asked.etcd_prefix(), "/mine");
        assert_eq!(asked.schema_origin(), Origin::Asked);
        let own = Identity::of(owner, &chosen("steward-1"), &Chosen::default()).unwrap();
        assert_eq!(own.schema_origin(), Origin::Derived);
    }

    #[test]
    fn the_administrator_and_names_that_are_none_are_refused() {
        for name in ["", "-a", "a/b", "a b", "../x", "ä", &"a".repeat(128)] {
            let refused = Identity::of(owner("a", "b", "1"), &Chosen::default(), &chosen(name));
            assert!(matches!(refused, Err(Error::Malformed { .. })), "{name:?}");
        }
        let root = Identity::of(owner("a", "b", "1"), &Chosen::default(), &chosen("root"));
        assert!(matches!(root, Err(Error::Reserved { .. })));
        let nobody = Identity::of(owner("a", "b", ""), &Chosen::default(), &Chosen::default());
        assert!(nobody.is_err());
    }

    proptest! {
        #[test]
        fn no_key_of_one_tenant_lies_in_the_range_of_another(
            one in "[a-z0-9-]{1,12}", other in "[a-z0-9-]{1,12}", rest in "[ -~]{0,12}",
        ) {
            prop_assume!(one != other);
            let (one, other) = (derived("n", "x", &one), derived("n", "y", &other));
            let key = [one.prefix(), rest.into_bytes()].concat();
            prop_assert!(key >= one.prefix() && key < one.range_end());
            prop_assert!(key < other.prefix() || key >= other.range_end());
        }
    }
}
