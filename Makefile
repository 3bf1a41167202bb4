# Two commands: `make test` checks everything, `make up` makes a Butler on this machine.
# Both install what is missing first and are quick when nothing is.

.PHONY: help test up down try e2e packages gen
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: packages ## Install what is needed, then format, lints, generated files, layers and all tests
	@cargo xtask toolchain install --group test
	@cargo xtask test

up: packages ## Make a whole platform on this machine, with a tenant and its worker (as root)
	@[ "$$(id -u)" = 0 ] || { echo "make up needs root, for namespaces, mounts and routes: sudo --preserve-env=PATH,HOME make up" >&2; exit 3; }
	@cargo build --release --quiet -p butler -p butler-cli
	@target/release/butleradm up

down: ## End the platform; its disks stay (`target/release/butleradm reset` removes them too)
	@target/release/butleradm down

try: packages ## Without root: a real API server with Butler's resources and controllers, until Ctrl-C
	@cargo xtask toolchain install --group test
	@cargo xtask up

e2e: packages ## Bring a platform up, use it, break it, take it down and count what is left (as root)
	@cargo xtask e2e

packages: ## Install missing system packages (Debian, as root)
	@scripts/packages

gen: ## Write the generated files again
	@cargo xtask gen
