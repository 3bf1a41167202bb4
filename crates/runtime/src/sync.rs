//! A lock that goes on after a panic of another holder: what it guards is valid at every step.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The guard, whatever happened to others.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
