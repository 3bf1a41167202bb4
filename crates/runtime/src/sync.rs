//! Between tasks: a lock that goes on after a panic of another holder, because what it guards is valid at every step, a
//! channel as a stream, and a stream whose items are gathered.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{Stream, StreamExt, stream};
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{Instant, sleep_until},
};

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

/// What comes within a while after the first, each once and in order.
pub fn gather<T: Ord + Send>(
    items: impl Stream<Item = T> + Send,
    pause: Duration,
) -> impl Stream<Item = T> + Send {
    stream::unfold(Box::pin(items), move |mut items| async move {
        let mut gathered = BTreeSet::from([items.next().await?]);
        let end = Instant::now() + pause;
        loop {
            tokio::select! {
                item = items.next() => match item {
                    Some(item) => _ = gathered.insert(item),
                    None => break,
                },
                () = sleep_until(end) => break,
            }
        }
        Some((stream::iter(gathered), items))
    })
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_comes_together_is_told_once_and_what_comes_later_again() {
        let (later, items) = futures::channel::mpsc::unbounded();
        for item in ["b", "a", "b"] {
            later.unbounded_send(item).unwrap();
        }
        let mut gathered = Box::pin(gather(items, Duration::from_millis(1)));
        assert_eq!(gathered.next().await, Some("a"));
        assert_eq!(gathered.next().await, Some("b"));
        later.unbounded_send("b").unwrap();
        assert_eq!(gathered.next().await, Some("b"));
        drop(later);
        assert_eq!(gathered.next().await, None);
    }
}
