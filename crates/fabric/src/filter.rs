//! The packet filters: what routes alone cannot say.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::{
    layout::Layout,
    plan::{bridge_of, mark_of},
    records::Cluster,
    state::{Filter, MACHINE_LINK, UPLINK},
};

/// The router's: nobody opens a connection to the host, or in the name of a load balancer.
///
/// Packets of load balancers are answers, and may go to any client, so they are routed past the tables of clusters;
/// without the filter a machine could use such an address as its source to reach any other. TCP is judged by its
/// flags and not tracked, and neither is anything with an address that is not ours: equal pod addresses of two
/// clusters would be one connection to the kernel.
///
/// The exception are connections to load balancers, which nobody but a machine answers. Each is marked with the machine
/// that its first packet was sent to, and stays there while others come and go.
///
/// What a machine of the management cluster could not translate comes back from it, and is not sent there again.
pub(crate) fn router(
    layout: Layout,
    management: Option<&Cluster>,
    machines: impl Iterator<Item = Ipv4Addr>,
) -> Filter {
    let (range, balancers) = (layout.range(), layout.balancers());
    let marks = machines.map(|it| format!("{it} : {:#x}", mark_of(it)));
    let marks = marks.collect::<Vec<_>>().join(", ");
    let stay = if marks.is_empty() {
        String::new()
    } else {
        format!(
            "  ip daddr {balancers} tcp flags & (syn | ack) == syn ct mark set rt ip nexthop map {{ {marks} }}\n"
        )
    };
    let back = management.map_or_else(String::new, |cluster| {
        let (bridge, services) = (bridge_of(cluster.table), cluster.services);
        format!("  iifname \"{bridge}\" oifname \"{bridge}\" ip daddr {services} reject\n")
    });
    Filter::new(format!(
        "chain untracked {{
  type filter hook prerouting priority raw; policy accept;
  meta l4proto tcp ip daddr {balancers} accept
  meta l4proto tcp ip saddr {balancers} accept
  meta l4proto tcp notrack
  ip saddr != {range} notrack
  ip daddr != {range} notrack
}}
chain staying {{
  type filter hook prerouting priority mangle; policy accept;
  ip daddr {balancers} tcp flags & (syn | ack) != syn ct mark != 0 meta mark set ct mark
}}
chain passing {{
  type filter hook forward priority filter; policy accept;
  ip saddr {balancers} tcp flags & (syn | ack) == syn drop
  ip saddr {balancers} meta l4proto != tcp ct state new drop
  oifname \"{UPLINK}\" tcp flags & (syn | ack) == syn drop
  oifname \"{UPLINK}\" meta l4proto != tcp ct state != {{ established, related }} drop
{back}{stay}}}
"
    ))
}

/// A tenant machine's: pods leave their cluster with the machine's address, since theirs may be somebody else's too.
pub(crate) fn machine(pods: Ipv4Net) -> Filter {
    Filter::new(format!(
        "chain leaving {{
  type nat hook postrouting priority srcnat + 10; policy accept;
  oifname \"{MACHINE_LINK}\" ip saddr {pods} ip daddr != {pods} masquerade
}}
"
    ))
}
