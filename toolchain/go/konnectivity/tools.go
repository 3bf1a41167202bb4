//go:build tools

// Package tools names the commands built from this module, so that go.sum covers all they import.
package tools

import (
	_ "sigs.k8s.io/apiserver-network-proxy/cmd/agent"
	_ "sigs.k8s.io/apiserver-network-proxy/cmd/server"
)
