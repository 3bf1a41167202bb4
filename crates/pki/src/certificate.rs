//! Certificates as they were read: who, by whom, for what and how long.
//!
//! Reading is strict about the encoding and lenient about everything else; [`crate::plan`] judges.

use std::{collections::BTreeSet, net::IpAddr};

use jiff::Timestamp;
use thiserror::Error;
use x509_parser::{
    certificate::X509Certificate,
    extensions::{GeneralName, KeyUsage, ParsedExtension},
    prelude::FromDer as _,
    x509::X509Name,
};

use crate::{
    key::{PrivateKey, encode},
    names::{AltName, AltNames},
    profile::{Profile, Purpose, Subject},
};

/// Why text is no certificate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CertificateError {
    /// No block with a certificate.
    #[error("there is no certificate in it: write a PEM block CERTIFICATE")]
    Missing,
    /// A block that is damaged.
    #[error("the certificate in it cannot be read")]
    Damaged,
}

/// A certificate and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    der: Vec<u8>,
    pub(crate) subject_der: Vec<u8>,
    issuer_der: Vec<u8>,
    public_key: Vec<u8>,
    pub(crate) subject_key_id: Option<Vec<u8>>,
    subject: Subject,
    names: AltNames,
    purposes: Option<BTreeSet<Purpose>>,
    other_purposes: bool,
    is_authority: bool,
    usage: Option<KeyUsage>,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl Certificate {
    /// Reads the first certificate of PEM text.
    pub fn from_pem(text: &[u8]) -> Result<Self, CertificateError> {
        Self::all_from_pem(text)?
            .into_iter()
            .next()
            .ok_or(CertificateError::Missing)
    }

    /// Reads every certificate of PEM text; other blocks are skipped.
    pub fn all_from_pem(text: &[u8]) -> Result<Vec<Self>, CertificateError> {
        let blocks = pem::parse_many(text).map_err(|_| CertificateError::Damaged)?;
        let certificates = blocks.iter().filter(|block| block.tag() == "CERTIFICATE");
        certificates
            .map(|block| Self::from_der(block.contents()))
            .collect()
    }

    /// Reads an encoded certificate.
    pub fn from_der(der: &[u8]) -> Result<Self, CertificateError> {
        let (rest, parsed) =
            X509Certificate::from_der(der).map_err(|_| CertificateError::Damaged)?;
        if !rest.is_empty() {
            return Err(CertificateError::Damaged);
        }
        let moment = |second| Timestamp::from_second(second).map_err(|_| CertificateError::Damaged);
        let usage = parsed.key_usage().map_err(|_| CertificateError::Damaged)?;
        let constraints = parsed
            .basic_constraints()
            .map_err(|_| CertificateError::Damaged)?;
        let extended = parsed
            .extended_key_usage()
            .map_err(|_| CertificateError::Damaged)?;
        let purposes = extended.as_ref().map(|extended| {
            let given = [
                (
                    extended.value.server_auth || extended.value.any,
                    Purpose::ServerAuth,
                ),
                (
                    extended.value.client_auth || extended.value.any,
                    Purpose::ClientAuth,
                ),
            ];
            given
                .into_iter()
                .filter_map(|(given, purpose)| given.then_some(purpose))
                .collect()
        });
        Ok(Self {
            subject_der: parsed.subject().as_raw().to_vec(),
            issuer_der: parsed.issuer().as_raw().to_vec(),
            public_key: parsed.public_key().raw.to_vec(),
            subject_key_id: subject_key_id(&parsed),
            subject: subject(parsed.subject()),
            names: names(&parsed)?,
            purposes,
            other_purposes: extended.is_some_and(|extended| {
                let value = extended.value;
                value.any
                    || value.code_signing
                    || value.email_protection
                    || value.time_stamping
                    || value.ocsp_signing
                    || !value.other.is_empty()
            }),
            is_authority: constraints.is_some_and(|constraints| constraints.value.ca),
            usage: usage.map(|usage| *usage.value),
            not_before: moment(parsed.validity().not_before.timestamp())?,
            not_after: moment(parsed.validity().not_after.timestamp())?,
            der: der.to_vec(),
        })
    }

    /// The certificate as a PEM block.
    pub fn to_pem(&self) -> String {
        encode("CERTIFICATE", &self.der)
    }

    /// The encoded certificate.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Whom it names.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// What it is valid for.
    pub fn names(&self) -> &AltNames {
        &self.names
    }

    /// Since when it is valid.
    pub fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// Until when it is valid.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Whether it may sign other certificates.
    pub fn is_authority(&self) -> bool {
        self.is_authority && self.usage.as_ref().is_none_or(KeyUsage::key_cert_sign)
    }

    /// Whether what it signs may be used for this: an authority limited to other uses spoils its leaves.
    pub(crate) fn allows(&self, purpose: Purpose) -> bool {
        self.purposes
            .as_ref()
            .is_none_or(|purposes| purposes.contains(&purpose))
    }

    /// Whether it was made for this key.
    pub fn belongs_to(&self, key: &PrivateKey) -> bool {
        self.public_key == key.public_der()
    }

    /// Whether it signed itself.
    pub(crate) fn is_self_signed(&self) -> bool {
        self.is_signed_by(self)
    }

    /// Whether this authority signed it.
    pub fn is_signed_by(&self, authority: &Self) -> bool {
        // An authority may have been renewed with its key: the name and the key decide, not its dates.
        let (Ok((_, own)), Ok((_, other))) = (
            X509Certificate::from_der(&self.der),
            X509Certificate::from_der(&authority.der),
        ) else {
            return false;
        };
        self.issuer_der == authority.subject_der
            && own.verify_signature(Some(other.public_key())).is_ok()
    }

    /// Whether its usages are exactly those of the profile.
    pub(crate) fn has_usages_of(&self, profile: &Profile) -> bool {
        let purposes = self.purposes.clone().unwrap_or_default();
        self.usage.as_ref().is_none_or(KeyUsage::digital_signature)
            && !self.other_purposes
            && purposes == profile.purposes
            && self.is_authority == profile.authority
    }
}

fn subject(name: &X509Name<'_>) -> Subject {
    let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        value.as_str().unwrap_or_default().to_owned()
    };
    Subject {
        common_name: name.iter_common_name().next().map(text).unwrap_or_default(),
        organizations: name.iter_organization().map(text).collect(),
    }
}

fn subject_key_id(parsed: &X509Certificate<'_>) -> Option<Vec<u8>> {
    parsed
        .extensions()
        .iter()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
            _ => None,
        })
}

fn names(parsed: &X509Certificate<'_>) -> Result<AltNames, CertificateError> {
    let extension = parsed
        .subject_alternative_name()
        .map_err(|_| CertificateError::Damaged)?;
    let names = extension
        .iter()
        .flat_map(|extension| &extension.value.general_names);
    Ok(names
        .filter_map(|name| match name {
            // As written: a name that would be refused today must still be seen as a difference.
            GeneralName::DNSName(name) => Some(AltName::Dns((*name).to_owned())),
            GeneralName::IPAddress(octets) => address(octets).map(AltName::from),
            _ => None,
        })
        .collect())
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(octets)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from))
        .ok()
}
