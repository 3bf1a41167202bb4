//! Writes X.509 certificates, byte for byte in the order that kubeadm's have.
//!
//! The issuer is copied from the authority as it is: verifiers compare names byte by byte, so an authority
//! with repeated or unusual parts in its name must not be written anew. It knows encodings only; what a
//! certificate says is decided in [`crate::profile`].

use jiff::{Timestamp, tz::TimeZone};
use yasna::{DERWriter, DERWriterSeq, Tag, construct_der, models::ObjectIdentifier};

use crate::{
    key::KeyKind,
    names::AltName,
    profile::{Profile, Purpose, Subject},
};

const COMMON_NAME: [u64; 4] = [2, 5, 4, 3];
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];
const KEY_USAGE: [u64; 4] = [2, 5, 29, 15];
const EXTENDED_KEY_USAGE: [u64; 4] = [2, 5, 29, 37];
const BASIC_CONSTRAINTS: [u64; 4] = [2, 5, 29, 19];
const SUBJECT_KEY_ID: [u64; 4] = [2, 5, 29, 14];
const AUTHORITY_KEY_ID: [u64; 4] = [2, 5, 29, 35];
const SUBJECT_ALT_NAME: [u64; 4] = [2, 5, 29, 17];

/// Everything a certificate says, apart from its signature.
pub(crate) struct Unsigned<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) serial: [u8; 16],
    /// Name of the authority, encoded.
    pub(crate) issuer: &'a [u8],
    pub(crate) issuer_key: KeyKind,
    pub(crate) issuer_key_id: Option<&'a [u8]>,
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
    pub(crate) public_key: &'a [u8],
    pub(crate) key_id: &'a [u8],
}

impl Unsigned<'_> {
    /// The bytes that are signed.
    pub(crate) fn encode(&self) -> Vec<u8> {
        construct_der(|writer| {
            writer.write_sequence(|parts| {
                parts
                    .next()
                    .write_tagged(Tag::context(0), |version| version.write_u8(2));
                parts
                    .next()
                    .write_bigint_bytes(&positive(self.serial), true);
                algorithm(parts.next(), self.issuer_key);
                parts.next().write_der(self.issuer);
                parts.next().write_sequence(|validity| {
                    validity.next().write_der(&time(self.not_before));
                    validity.next().write_der(&time(self.not_after));
                });
                parts.next().write_der(&name(&self.profile.subject));
                parts.next().write_der(self.public_key);
                parts.next().write_tagged(Tag::context(3), |extensions| {
                    extensions.write_sequence(|list| self.extensions(list));
                });
            });
        })
    }

    fn extensions(&self, list: &mut DERWriterSeq<'_>) {
        let profile = self.profile;
        extension(list, &KEY_USAGE, true, |writer| {
            // Digital signature and key encipherment; an authority also signs certificates.
            let (bits, length) = if profile.authority {
                (0b1010_0100, 6)
            } else {
                (0b1010_0000, 3)
            };
            writer.write_bitvec_bytes(&[bits], length);
        });
        if !profile.purposes.is_empty() {
            extension(list, &EXTENDED_KEY_USAGE, false, |writer| {
                writer.write_sequence(|purposes| {
                    for purpose in &profile.purposes {
                        purposes.next().write_oid(&oid(purpose_oid(*purpose)));
                    }
                });
            });
        }
        extension(list, &BASIC_CONSTRAINTS, true, |writer| {
            writer.write_sequence(|constraints| {
                if profile.authority {
                    constraints.next().write_bool(true);
                }
            });
        });
        if profile.authority {
            extension(list, &SUBJECT_KEY_ID, false, |writer| {
                writer.write_bytes(self.key_id);
            });
        } else if let Some(id) = self.issuer_key_id {
            extension(list, &AUTHORITY_KEY_ID, false, |writer| {
                writer.write_sequence(|parts| {
                    let tag = Tag::context(0);
                    parts
                        .next()
                        .write_tagged_implicit(tag, |writer| writer.write_bytes(id));
                });
            });
        }
        if !profile.names.is_empty() {
            extension(list, &SUBJECT_ALT_NAME, false, |writer| {
                writer.write_sequence(|names| {
                    for name in &profile.names {
                        alt_name(names.next(), name);
                    }
                });
            });
        }
    }
}

/// The certificate: what was signed, how, and the signature.
pub(crate) fn signed(unsigned: &[u8], issuer_key: KeyKind, signature: &[u8]) -> Vec<u8> {
    construct_der(|writer| {
        writer.write_sequence(|parts| {
            parts.next().write_der(unsigned);
            algorithm(parts.next(), issuer_key);
            parts
                .next()
                .write_bitvec_bytes(signature, signature.len() * 8);
        });
    })
}

/// A subject, encoded: organizations in one set, then the common name.
pub(crate) fn name(subject: &Subject) -> Vec<u8> {
    construct_der(|writer| {
        writer.write_sequence(|parts| {
            if !subject.organizations.is_empty() {
                parts.next().write_set_of(|set| {
                    for organization in &subject.organizations {
                        attribute(set.next(), &ORGANIZATION, organization);
                    }
                });
            }
            parts.next().write_set_of(|set| {
                attribute(set.next(), &COMMON_NAME, &subject.common_name);
            });
        });
    })
}

fn attribute(writer: DERWriter<'_>, kind: &[u64], text: &str) {
    writer.write_sequence(|parts| {
        parts.next().write_oid(&oid(kind));
        if text.bytes().all(is_printable) {
            parts.next().write_printable_string(text);
        } else {
            parts.next().write_utf8_string(text);
        }
    });
}

fn is_printable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&byte)
}

fn extension(
    list: &mut DERWriterSeq<'_>,
    kind: &[u64],
    critical: bool,
    value: impl FnOnce(DERWriter<'_>),
) {
    list.next().write_sequence(|parts| {
        parts.next().write_oid(&oid(kind));
        if critical {
            parts.next().write_bool(true);
        }
        parts.next().write_bytes(&construct_der(value));
    });
}

fn alt_name(writer: DERWriter<'_>, name: &AltName) {
    match name {
        AltName::Dns(name) => {
            writer.write_tagged_implicit(Tag::context(2), |writer| writer.write_ia5_string(name));
        }
        AltName::Ip(address) => {
            let octets = match address {
                std::net::IpAddr::V4(address) => address.octets().to_vec(),
                std::net::IpAddr::V6(address) => address.octets().to_vec(),
            };
            writer.write_tagged_implicit(Tag::context(7), |writer| writer.write_bytes(&octets));
        }
    }
}

/// How the authority signs.
fn algorithm(writer: DERWriter<'_>, key: KeyKind) {
    let (kind, with_null): (&[u64], bool) = match key {
        KeyKind::EcdsaP256 => (&[1, 2, 840, 10045, 4, 3, 2], false),
        KeyKind::EcdsaP384 => (&[1, 2, 840, 10045, 4, 3, 3], false),
        KeyKind::Rsa(_) => (&[1, 2, 840, 113_549, 1, 1, 11], true),
    };
    writer.write_sequence(|parts| {
        parts.next().write_oid(&oid(kind));
        if with_null {
            parts.next().write_null();
        }
    });
}

fn purpose_oid(purpose: Purpose) -> &'static [u64] {
    match purpose {
        Purpose::ServerAuth => &[1, 3, 6, 1, 5, 5, 7, 3, 1],
        Purpose::ClientAuth => &[1, 3, 6, 1, 5, 5, 7, 3, 2],
    }
}

fn oid(parts: &[u64]) -> ObjectIdentifier {
    ObjectIdentifier::from_slice(parts)
}

/// A serial number is a positive number other than zero: 126 bits of it are the caller's.
fn positive(mut serial: [u8; 16]) -> [u8; 16] {
    let [first, ..] = &mut serial;
    *first = (*first & 0x3f) | 0x40;
    serial
}

/// Two digits for the year until 2049, four from then on, as RFC 5280 wants it.
fn time(moment: Timestamp) -> Vec<u8> {
    let moment = moment.to_zoned(TimeZone::UTC);
    let (tag, text) = if (1950..2050).contains(&moment.year()) {
        (0x17, moment.strftime("%y%m%d%H%M%SZ").to_string())
    } else {
        (0x18, moment.strftime("%Y%m%d%H%M%SZ").to_string())
    };
    let length = u8::try_from(text.len()).expect("a time has at most 15 characters");
    [&[tag, length], text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_century_decides_how_a_time_is_written() {
        let at = |text: &str| String::from_utf8(time(text.parse().unwrap())).unwrap();
        assert_eq!(at("2049-12-31T23:59:59Z"), "\x17\x0d491231235959Z");
        assert_eq!(at("2050-01-01T00:00:00Z"), "\x18\x0f20500101000000Z");
    }

    #[test]
    fn a_serial_number_is_positive_and_never_short() {
        assert_eq!(positive([0xff; 16])[0], 0x7f);
        assert_eq!(positive([0; 16])[0], 0x40);
    }
}
