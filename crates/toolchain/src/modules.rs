//! The small Go modules below `toolchain/go`, carried inside the program so that no clone is needed to build from them.
//!
//! Only their text: running `go` is [`crate::source::gobuild`]'s work.

use std::borrow::Cow;

/// A Go module that pins one component and everything it is built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoModule {
    /// Its name, by which a component refers to it.
    pub name: Cow<'static, str>,
    /// Its `go.mod`.
    pub go_mod: Cow<'static, str>,
    /// Its `go.sum`, which holds the checksum of every source it may use.
    pub go_sum: Cow<'static, str>,
    /// The file that names the commands, without which `-mod=readonly` finds them unlisted.
    pub tools_go: Cow<'static, str>,
}

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        vec![$(GoModule {
            name: Cow::Borrowed($name),
            go_mod: Cow::Borrowed(include_str!(concat!("../../../toolchain/go/", $name, "/go.mod"))),
            go_sum: Cow::Borrowed(include_str!(concat!("../../../toolchain/go/", $name, "/go.sum"))),
            tools_go: Cow::Borrowed(include_str!(concat!("../../../toolchain/go/", $name, "/tools.go"))),
        }),*]
    };
}

/// Every module of `toolchain/go`.
pub(crate) fn embedded() -> Vec<GoModule> {
    embedded![
        "cert-manager",
        "cilium",
        "cluster-api",
        "containerd",
        "coredns",
        "etcd",
        "helm",
        "helm-controller",
        "konnectivity",
        "kubernetes-1.34",
        "kubernetes-1.35",
        "kustomize-controller",
        "local-path-provisioner",
        "metrics-server",
        "registry",
        "source-controller",
    ]
}
