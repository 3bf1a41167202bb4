//go:build tools

// Package tools is empty: only files are taken out of the module, and nothing is built from it.
package tools
