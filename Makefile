# Two commands: `make test` checks everything, `make up` starts a Butler on this machine.
# Both install what is missing first and are quick when nothing is.

.PHONY: help test up packages gen
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: packages ## Install what is needed, then format, lints, generated files, layers and all tests
	@cargo xtask toolchain install --group test
	@cargo xtask test

up: packages ## Start a real API server with Butler's resources and controllers
	@cargo xtask toolchain install --group test
	@cargo xtask up

packages: ## Install missing system packages (Debian, as root)
	@scripts/packages

gen: ## Write the generated files again
	@cargo xtask gen
