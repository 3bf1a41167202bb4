//! Addresses of 127.0.0.0/8 for the node, pods and load balancers of one [`Pods`](super::Pods).
//!
//! All processes of a machine share these, so each value claims one block of 65,536 by listening on a port of it.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU16, Ordering},
};

/// Whoever listens here owns the block.
const CLAIM: u16 = 47_023;
const BLOCKS: std::ops::Range<u8> = 32..232;
/// Pods get the lower half of a block, load balancers the upper one.
const HALF: u16 = 0x8000;

pub(super) struct Addresses {
    pub(super) node: Ipv4Addr,
    block: u8,
    pods: AtomicU16,
    balancers: AtomicU16,
    _claim: TcpListener,
}

impl Addresses {
    /// Takes the first free block after one that depends on the process, so that few are tried twice.
    pub(super) fn claim() -> io::Result<Self> {
        let start = usize::try_from(std::process::id()).unwrap_or(0) % BLOCKS.len();
        for block in BLOCKS.cycle().skip(start).take(BLOCKS.len()) {
            let node = Ipv4Addr::new(127, block, 0, 1);
            if let Ok(claim) = TcpListener::bind((node, CLAIM)) {
                return Ok(Self {
                    node,
                    block,
                    pods: AtomicU16::new(0),
                    balancers: AtomicU16::new(0),
                    _claim: claim,
                });
            }
        }
        Err(io::Error::other(
            "every block of loopback addresses is in use",
        ))
    }

    pub(super) fn next_pod(&self) -> Ipv4Addr {
        // The first 256 are left to the node.
        let offset = self.pods.fetch_add(1, Ordering::Relaxed) % (HALF - 0x100);
        self.at(0x100 + offset)
    }

    pub(super) fn next_balancer(&self) -> Ipv4Addr {
        let offset = self.balancers.fetch_add(1, Ordering::Relaxed) % (HALF - 1);
        self.at(HALF + 1 + offset)
    }

    fn at(&self, offset: u16) -> Ipv4Addr {
        let [third, fourth] = offset.to_be_bytes();
        Ipv4Addr::new(127, self.block, third, fourth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_claims_share_no_address() {
        let (one, other) = (Addresses::claim().unwrap(), Addresses::claim().unwrap());
        assert_ne!(one.node, other.node);
        assert_ne!(one.next_pod(), other.next_pod());
        assert_ne!(one.next_balancer(), one.next_balancer());
        assert_ne!(one.next_pod(), one.next_balancer());
    }
}
