//! What Helm wrote down about a release: Secrets of type `helm.sh/release.v1`, one a revision.

use std::{collections::BTreeMap, fmt, io::Read as _, io::Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::request::Request;

/// The label that says which request a revision fulfils.
pub const REQUEST: &str = "butler.butlerlabs.dev/request";
/// The label that says whether a revision was healthy once: what became unhealthy later is not given up for it, and the
/// way back leads to such a revision.
pub const HEALTHY: &str = "butler.butlerlabs.dev/healthy";
/// The label with the UID of the addon that a release belongs to.
pub const OWNER: &str = "butler.butlerlabs.dev/owner-uid";
/// A record larger than this is none: an API server holds no Secret above 1 MiB, and a bomb must not fill the memory.
const LARGEST: u64 = 64 << 20;

/// Where a revision is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It stands.
    Deployed,
    /// Another one stands in its place.
    Superseded,
    /// It could not be carried out.
    Failed,
    /// It is being removed.
    Uninstalling,
    /// It was removed, and its record kept.
    Uninstalled,
    /// The first one is under way.
    PendingInstall,
    /// Another one is under way.
    PendingUpgrade,
    /// The way back is under way.
    PendingRollback,
    /// Anything else.
    #[serde(other)]
    Unknown,
}

impl Status {
    /// As in labels of records.
    pub fn parse(text: &str) -> Self {
        serde_json::from_value(Value::String(text.to_owned())).unwrap_or(Self::Unknown)
    }

    /// Whether somebody is at it, or was when it was killed.
    pub fn is_pending(self) -> bool {
        matches!(
            self,
            Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback
        )
    }
}

/// A revision, as far as the labels of its record tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Revision {
    /// Its number.
    pub number: u32,
    /// Where it is in its life.
    pub status: Status,
    /// The fingerprint of the request that it fulfils; nothing on what others installed.
    pub request: Option<String>,
    /// The UID of the addon that it belongs to.
    pub owner: Option<String>,
    /// Whether it was healthy once.
    pub healthy: bool,
}

impl Revision {
    /// Reads the labels of a record.
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Option<Self> {
        Some(Self {
            number: labels.get("version")?.parse().ok()?,
            status: Status::parse(labels.get("status")?),
            request: labels.get(REQUEST).cloned(),
            owner: labels.get(OWNER).cloned(),
            healthy: labels.get(HEALTHY).is_some_and(|said| said == "true"),
        })
    }
}

/// A whole record. Values and objects may be secret, so neither is ever printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it is in its life.
    pub status: Status,
    /// What Helm says about it, such as `Rollback to 3`.
    pub description: String,
    /// When it was carried out.
    pub deployed: Option<Timestamp>,
    /// Name and version of the chart.
    pub chart: String,
    /// Version of the chart.
    pub chart_version: String,
    /// The values that were given.
    pub values: Value,
    /// The objects, as YAML.
    pub manifest: String,
}

impl fmt::Debug for Record {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Record")
            .field("status", &self.status)
            .field("chart", &self.chart)
            .field("chart_version", &self.chart_version)
            .finish_non_exhaustive()
    }
}

/// What Helm is told to write about a revision that fulfils a request. It hands labels on from one revision to the next
/// whoever makes that; this it does not, so it tells our revisions from those of others.
pub fn description(fingerprint: &str) -> String {
    format!("Butler fulfilled request {fingerprint}")
}

impl Record {
    /// Whether it is the one that was made for a request.
    pub fn was_made_for(&self, fingerprint: &str) -> bool {
        self.description == description(fingerprint)
    }

    /// Whether it has the chart and the values of a request, whoever made it.
    pub fn is_like(&self, request: &Request) -> bool {
        self.chart == request.chart.name
            && self.chart_version == request.chart.version
            && self.values == request.values
    }

    /// Whether it is the way back from a revision that was given up.
    pub fn is_rollback(&self) -> bool {
        self.description.starts_with("Rollback to")
    }
}

/// A record is not what Helm writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is not packed as Helm packs it.
    #[error("the record of the release is damaged")]
    Damaged,
    /// It unpacks to more than can be.
    #[error("the record of the release is larger than {} MiB", LARGEST >> 20)]
    TooLarge,
}

#[derive(Deserialize)]
struct Stored {
    #[serde(default)]
    info: Info,
    #[serde(default)]
    chart: Chart,
    #[serde(default)]
    config: Option<Value>,
    #[serde(default)]
    manifest: String,
}

#[derive(Default, Deserialize)]
struct Info {
    #[serde(default)]
    status: Option<Status>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    last_deployed: Option<String>,
}

#[derive(Default, Deserialize)]
struct Chart {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
}

/// Reads the key `release` of a record.
pub fn read(packed: &[u8]) -> Result<Record, RecordError> {
    let stored: Stored =
        serde_json::from_slice(&unpack(packed)?).map_err(|_| RecordError::Damaged)?;
    let deployed = stored.info.last_deployed.as_deref();
    Ok(Record {
        status: stored.info.status.unwrap_or(Status::Unknown),
        description: stored.info.description,
        deployed: deployed.and_then(|time| time.parse().ok()),
        chart: stored.chart.metadata.name,
        chart_version: stored.chart.metadata.version,
        values: stored.config.unwrap_or_else(|| json!({})),
        manifest: stored.manifest,
    })
}

/// The same record, marked as failed: what Helm itself writes when it can, and goes on from.
pub fn mark_failed(packed: &[u8], why: &str) -> Result<Vec<u8>, RecordError> {
    let mut whole: Value =
        serde_json::from_slice(&unpack(packed)?).map_err(|_| RecordError::Damaged)?;
    let info = whole.get_mut("info").and_then(Value::as_object_mut);
    let info = info.ok_or(RecordError::Damaged)?;
    info.insert("status".to_owned(), "failed".into());
    info.insert("description".to_owned(), why.into());
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder
        .write_all(whole.to_string().as_bytes())
        .and_then(|()| encoder.finish());
    let written = written.map_err(|_| RecordError::Damaged)?;
    Ok(STANDARD.encode(written).into_bytes())
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>, RecordError> {
    let zipped = STANDARD.decode(packed).map_err(|_| RecordError::Damaged)?;
    let mut text = Vec::new();
    let mut limited = GzDecoder::new(zipped.as_slice()).take(LARGEST + 1);
    limited
        .read_to_end(&mut text)
        .map_err(|_| RecordError::Damaged)?;
    if text.len() as u64 > LARGEST {
        return Err(RecordError::TooLarge);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(whole: &Value) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(whole.to_string().as_bytes()).unwrap();
        STANDARD.encode(encoder.finish().unwrap()).into_bytes()
    }

    #[test]
    fn a_record_is_read_and_marked_and_keeps_everything_else() {
        let whole = json!({
            "name": "r", "version": 3, "config": {"password": "hunter2"}, "manifest": "---\n",
            "info": {
                "status": "pending-upgrade", "description": "Preparing upgrade",
                "last_deployed": "2026-11-16T01:26:35.334790041Z",
            },
            "chart": {"metadata": {"name": "small", "version": "1.0.0"}, "templates": []},
        });
        let packed = pack(&whole);
        let record = read(&packed).unwrap();
        assert!(record.status.is_pending() && !record.is_rollback());
        assert_eq!(record.chart_version, "1.0.0");
        assert_eq!(record.values, whole["config"]);
        assert!(record.deployed.is_some());
        let marked = mark_failed(&packed, "interrupted").unwrap();
        assert_eq!(read(&marked).unwrap().status, Status::Failed);
        let marked: Value = serde_json::from_slice(&unpack(&marked).unwrap()).unwrap();
        assert_eq!(marked["config"], whole["config"]);
    }

    #[test]
    fn what_helm_did_not_write_is_an_error() {
        assert_eq!(read(b"!!"), Err(RecordError::Damaged));
        assert_eq!(read(b"aGVsbG8="), Err(RecordError::Damaged));
    }

    #[test]
    fn a_status_of_a_later_version_is_unknown() {
        assert_eq!(Status::parse("pending-rollback"), Status::PendingRollback);
        assert_eq!(Status::parse("levitating"), Status::Unknown);
    }
}
