//! A store, tenants and their users for a test.

use butler_steward::store::{
    Chosen, Credentials, Identity, Material, Owner, Session, Sessions, Settings,
};
use butler_testkit::etcd::TlsEtcd;
use std::sync::Arc;

use super::raw::User;

/// An etcd with a session of its administrator.
pub struct Stage {
    pub etcd: TlsEtcd,
    pub session: Arc<Session>,
    pub root: User,
}

impl Stage {
    pub async fn start() -> Self {
        Self::with(TlsEtcd::start().await.unwrap())
    }

    pub fn with(etcd: TlsEtcd) -> Self {
        let session = Sessions::default().get(&settings(&etcd, "root")).unwrap();
        let root = user(&etcd, "root");
        Self {
            etcd,
            session,
            root,
        }
    }

    /// The tenant's own user.
    pub fn tenant(&self, identity: &Identity) -> User {
        user(&self.etcd, identity.user())
    }

    /// Fills the prefix of a tenant.
    pub async fn fill(&self, identity: &Identity, keys: usize) {
        let tenant = self.tenant(identity);
        for at in 0..keys {
            let key = format!("{}/registry/pods/{at:05}", identity.etcd_prefix());
            tenant.put(key, &vec![b'x'; at % 700]).await.unwrap();
        }
    }
}

pub fn user(etcd: &TlsEtcd, name: &str) -> User {
    User::connect(&etcd.endpoint(), etcd.authority().0, etcd.client(name))
}

/// How a user with a certificate of the store's authority reaches the store.
pub fn settings(etcd: &TlsEtcd, user: &str) -> Settings {
    settings_with(etcd, |material| {
        let (certificate, key) = etcd.client(user);
        material.client = Some((certificate.into_bytes(), key.into_bytes()));
    })
}

pub fn settings_with(etcd: &TlsEtcd, change: impl FnOnce(&mut Material)) -> Settings {
    let (certificate, key) = etcd.client("nobody");
    let mut material = Material {
        authority: etcd.authority().0.as_bytes().to_vec(),
        client: Some((certificate.into_bytes(), key.into_bytes())),
        basic: None,
    };
    change(&mut material);
    Settings {
        store: "default".to_owned(),
        endpoints: vec![etcd.endpoint()],
        credentials: Credentials::parse(material).unwrap(),
    }
}

pub fn owner(namespace: &str, name: &str, uid: &str) -> Owner {
    Owner {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

pub fn tenant(namespace: &str, name: &str, uid: &str) -> Identity {
    asking(owner(namespace, name, uid), None, None)
}

/// A tenant whose spec names its place.
pub fn asking(owner: Owner, schema: Option<&str>, user: Option<&str>) -> Identity {
    Identity::of(owner, &Chosen::default(), &chosen(schema, user)).unwrap()
}

pub fn chosen(schema: Option<&str>, user: Option<&str>) -> Chosen {
    Chosen {
        schema: schema.map(str::to_owned),
        user: user.map(str::to_owned),
    }
}
