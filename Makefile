.PHONY: help test check bench

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

test: ## all tests
	go test ./...

check: ## what decides whether a change lands: formatting, vet, staticcheck, tests, race detector, builds
	.ci/run

bench: ## the benchmark against the bare database and other systems; BENCH='-rounds 3 -work W1-FULL,W5' narrows it
	cd bench/langgraph && npm ci
	cd bench && go run . $(BENCH)
