//! Events that people read with `kubectl describe`, each told once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use jiff::{SignedDuration, Timestamp};
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};

use crate::{clock::SharedClock, sync::lock};

/// How long the same words about the same object are not repeated.
const QUIET: SignedDuration = SignedDuration::from_mins(30);
/// Words remembered before old ones are forgotten.
const REMEMBERED: usize = 4096;

/// Something worth telling about an object.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// Whether a person should worry.
    pub warning: bool,
    /// One word for programs.
    pub reason: &'static str,
    /// What was being done.
    pub action: &'static str,
    /// A sentence for people.
    pub message: String,
}

/// Publishes notes, leaving out what was just said.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
    clock: SharedClock,
    told: Arc<Mutex<HashMap<String, Timestamp>>>,
}

impl Events {
    /// Events in the name of one controller.
    pub fn new(client: Client, controller: &str, clock: SharedClock) -> Self {
        let reporter = Reporter {
            controller: controller.to_owned(),
            instance: None,
        };
        Self {
            recorder: Recorder::new(client, reporter),
            clock,
            told: Arc::default(),
        }
    }

    /// Tells a note about an object. An event that cannot be written never fails the work it tells of.
    pub async fn tell<K: Resource<DynamicType = ()>>(&self, object: &K, note: &Note) {
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let words = format!("{uid}/{}/{}", note.reason, note.message);
        if !self.is_news(&words) {
            return;
        }
        let event = Event {
            type_: if note.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: note.reason.to_owned(),
            note: Some(note.message.clone()),
            action: note.action.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &object.object_ref(&())).await {
            tracing::warn!(reason = note.reason, %error, "could not write an event");
            // The next time it is news again.
            lock(&self.told).remove(&words);
        }
    }

    fn is_news(&self, words: &str) -> bool {
        let now = self.clock.now();
        let mut told = lock(&self.told);
        if told.len() >= REMEMBERED {
            told.retain(|_, at| now.duration_since(*at) < QUIET);
        }
        match told.get(words) {
            Some(at) if now.duration_since(*at) < QUIET => false,
            _ => told
                .insert(words.to_owned(), now)
                .is_none_or(|at| now.duration_since(at) >= QUIET),
        }
    }
}
