//! The certificate authority of one server and the certificates it signs.
//!
//! It knows names and keys; it does not know what they are used for or where they are stored.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::User;

/// A certificate and its private key, both PEM.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// A new certificate authority.
pub(crate) fn authority() -> Result<Pair, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("butler-testkit", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let key = KeyPair::generate()?;
    let key_pem = key.serialize_pem();
    let issuer = CertifiedIssuer::self_signed(params, key)?;
    Ok(Pair {
        certificate: issuer.pem(),
        key: key_pem,
    })
}

/// A serving certificate for the names and addresses a test server answers on.
pub(crate) fn serving(authority: &Pair, names: &[&str]) -> Result<Pair, rcgen::Error> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = name("kube-apiserver", None);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(authority, params)
}

/// A client certificate that the API server reads as this user.
///
/// The subject holds one organisation at most, so only the first group is part of it.
pub(crate) fn client(authority: &Pair, user: &User) -> Result<Pair, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(user.name(), user.groups().first().map(String::as_str));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(authority, params)
}

/// A key pair for service account tokens: private key, public key.
pub(crate) fn token_keys() -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn sign(authority: &Pair, mut params: CertificateParams) -> Result<Pair, rcgen::Error> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let issuer =
        Issuer::from_ca_cert_pem(&authority.certificate, KeyPair::from_pem(&authority.key)?)?;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

fn name(common: &str, organisation: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    if let Some(organisation) = organisation {
        name.push(DnType::OrganizationName, organisation);
    }
    name
}
