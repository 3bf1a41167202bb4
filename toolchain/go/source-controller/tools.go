//go:build tools

// Package tools names the commands built from this module, so that go.sum covers all they import.
package tools

import (
	_ "github.com/fluxcd/source-controller"
)
