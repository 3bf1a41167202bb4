//! `write_files`: what is written where, decoded. Pure.

use std::io::Read as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value};

use super::{
    Error, File,
    document::{flag, list, text, wrong},
};

/// More than any file of bootstrap data, and little enough for a machine's memory: a small archive can hold much.
const LARGEST: u64 = 64 << 20;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const DEFAULT_MODE: u32 = 0o644;

/// How content is written down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Base64,
    Gzip,
    GzipBase64,
}

/// The files to write before users are made, and those that ask to be written afterwards.
pub(super) fn read(keys: &mut Map<String, Value>) -> Result<(Vec<File>, Vec<File>), Error> {
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for (index, item) in list(keys, "write_files")?.into_iter().enumerate() {
        let at = format!("write_files[{index}]");
        let Value::Object(mut item) = item else {
            return Err(wrong(at, "a file with path and content"));
        };
        let deferred = flag(&mut item, &at, "defer")?;
        let file = file(&mut item, &at)?;
        if deferred {
            late.push(file);
        } else {
            early.push(file);
        }
    }
    Ok((early, late))
}

fn file(item: &mut Map<String, Value>, at: &str) -> Result<File, Error> {
    let path = text(item, at, "path")?.filter(|path| is_sane(path));
    let path = path.ok_or_else(|| wrong(format!("{at}.path"), "an absolute path without .."))?;
    let encoding = text(item, at, "encoding")?.unwrap_or_default();
    let encoding = encoding_of(&encoding)
        .ok_or_else(|| wrong(format!("{at}.encoding"), "base64, gzip or gzip+base64"))?;
    let content = text(item, at, "content")?.unwrap_or_default();
    let owner = text(item, at, "owner")?.unwrap_or_default();
    let (owner, group) = owner.split_once(':').unwrap_or((&owner, ""));
    let owner = or_root(owner);
    Ok(File {
        path,
        content: decode(content, encoding, at)?,
        group: if group.is_empty() {
            owner.clone()
        } else {
            group.to_owned()
        },
        owner,
        mode: mode(item.remove("permissions").as_ref(), at)?,
        append: flag(item, at, "append")?,
    })
}

fn or_root(name: &str) -> String {
    if name.is_empty() { "root" } else { name }.to_owned()
}

fn is_sane(path: &str) -> bool {
    path.starts_with('/') && !path.ends_with('/') && !path.split('/').any(|part| part == "..")
}

/// All spellings that cloud-init knows.
fn encoding_of(name: &str) -> Option<Encoding> {
    match name.to_ascii_lowercase().as_str() {
        "" | "text/plain" => Some(Encoding::Plain),
        "b64" | "base64" => Some(Encoding::Base64),
        "gz" | "gzip" => Some(Encoding::Gzip),
        "gz+base64" | "gzip+base64" | "gz+b64" | "gzip+b64" => Some(Encoding::GzipBase64),
        _ => None,
    }
}

fn decode(content: String, encoding: Encoding, at: &str) -> Result<Vec<u8>, Error> {
    let failed = |encoding| Error::Content {
        at: format!("{at}.content"),
        encoding,
    };
    let from_base64 = |mut text: String| {
        // Long lines are folded by whoever wrote them.
        text.retain(|char| !char.is_ascii_whitespace());
        STANDARD.decode(text).map_err(|_| failed("base64"))
    };
    match encoding {
        Encoding::Plain => Ok(content.into_bytes()),
        Encoding::Base64 => from_base64(content),
        // YAML's own `!!binary` arrives as base64 as well.
        Encoding::Gzip | Encoding::GzipBase64 => {
            let packed = from_base64(content)?;
            gunzip(&packed).ok_or_else(|| failed("gzip of at most 64 MiB"))
        }
    }
}

/// Bootstrap data itself may be packed.
pub(super) fn unpacked(data: &[u8]) -> Result<Vec<u8>, Error> {
    if !data.starts_with(&GZIP) {
        return Ok(data.to_vec());
    }
    gunzip(data).ok_or_else(|| Error::Content {
        at: "the top".to_owned(),
        encoding: "gzip of at most 64 MiB",
    })
}

fn gunzip(packed: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut limited = MultiGzDecoder::new(packed).take(LARGEST + 1);
    let read = limited.read_to_end(&mut content).ok()?;
    (u64::try_from(read).is_ok_and(|read| read <= LARGEST)).then_some(content)
}

/// Permissions are octal digits in text, or a number, for which YAML has an octal form of its own.
fn mode(value: Option<&Value>, at: &str) -> Result<u32, Error> {
    let mode = match value {
        None | Some(Value::Null) => return Ok(DEFAULT_MODE),
        Some(Value::Number(number)) => number.as_u64().and_then(|mode| u32::try_from(mode).ok()),
        Some(Value::String(digits)) => {
            let digits = digits.strip_prefix("0o").unwrap_or(digits);
            u32::from_str_radix(digits, 8).ok()
        }
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
    };
    mode.filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| wrong(format!("{at}.permissions"), "octal digits such as '0640'"))
}

/// Content as text in a stored plan.
pub(super) mod as_base64 {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(in crate::bootstrap) fn serialize<S: Serializer>(
        content: &[u8],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(content))
    }

    pub(in crate::bootstrap) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(D::Error::custom)
    }
}
