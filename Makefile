# The commands people need. Each is also written out in CONTRIBUTING.md for machines without make.

.PHONY: demo test race lint check

demo: ## the main job, against the service in a box
	go run ./examples/quickstart

test: ## what the README tells a newcomer to run
	go test ./...

race: ## with the race detector
	go test -race ./...

lint: ## formatting and lint, tools pinned in tools/go.mod
	go tool -modfile=tools/go.mod golangci-lint run

check: ## everything a change must pass
	.ci/run
