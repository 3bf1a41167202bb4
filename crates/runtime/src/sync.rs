//! Between tasks: a lock that goes on after a panic of another holder, because what it guards is valid at every step, and
//! a channel as a stream.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::{Stream, stream};
use tokio::sync::mpsc::UnboundedReceiver;

/// The guard, whatever happened to others.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What comes through a channel, until nobody sends any more.
pub fn received<T: Send>(receiver: UnboundedReceiver<T>) -> impl Stream<Item = T> + Send {
    stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    })
}
