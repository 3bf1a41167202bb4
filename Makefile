# Two commands: `make test` checks everything, `make up` starts a Butler on this machine.
# Both install what is missing first and are quick when nothing is.

.PHONY: help test up platform e2e packages gen
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: packages ## Install what is needed, then format, lints, generated files, layers and all tests
	@cargo xtask toolchain install --group test
	@cargo xtask test

up: packages ## Start a real API server with Butler's resources and controllers
	@cargo xtask toolchain install --group test
	@cargo xtask up

platform: packages ## Make a whole platform on this machine (as root); `butleradm down` ends it
	@cargo build --release --quiet -p butler -p butler-cli
	@target/release/butleradm up

e2e: packages ## Bring a platform up, use it, break it, take it down and count what is left (as root)
	@cargo build --quiet -p butler
	@cargo test --quiet -p butler-cli --test platform -- --ignored --nocapture

packages: ## Install missing system packages (Debian, as root)
	@scripts/packages

gen: ## Write the generated files again
	@cargo xtask gen
