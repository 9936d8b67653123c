# The commands people need. Each is also written out in CONTRIBUTING.md for machines without make.

.PHONY: demo test race lint faults crashes simulate defects mutants fuzz rehearse platforms check nightly

# Which worlds to simulate, and how many.
FROM ?= 1
SEEDS ?= 10000

# Which package's mutants, and where gremlins may change lines: DIFF=main takes those that differ from main.
PACKAGE ?=
DIFF ?=

# How long to fuzz each target.
FUZZ ?= 3m

# Which version to rehearse.
VERSION ?= v0.2.0

demo: ## the main job, against the service in a box
	go run ./examples/quickstart

test: ## what the README tells a newcomer to run
	go test ./...

race: ## with the race detector
	go test -race ./...

lint: ## formatting and lint, tools pinned in internal/dev/tools/go.mod
	go tool -modfile=internal/dev/tools/go.mod golangci-lint run

faults: ## every fault by every operation, and 50,000 calls that must not see each other
	CLINICALDOC_FAULTS_PART=all go test -C internal/dev ./faultmatrix -run TestFaultMatrix -count=1 -v
	CLINICALDOC_ISOLATION_CALLS=50000 go test -C internal/dev -race ./faultmatrix -run TestIsolation -count=1 -v

crashes: ## ingest: 1000 kills at every transition, stops, a million keys; fleets in virtual time, and one of processes
	CLINICALDOC_INGEST_KILLS=1000 CLINICALDOC_INGEST_KEYS=1000000 go test ./ingest -run 'TestCrashMatrix|ProcessStopped|ManyKeys' -count=1 -v
	CLINICALDOC_JETSTREAM_FLEET=10000 go test -C ingest/jetstream . -run 'TestFleetWorlds|TestWork_WorkerDies|TestResolve_ProcessDies|TestFleet_Workers' -worlds 2000 -count=1 -v -timeout 60m

simulate: ## days of clinics in virtual time, by seed (FROM, SEEDS)
	go test -C internal/dev ./simulation -run TestWorlds -count=1 -v -timeout 0 -from $(FROM) -seeds $(SEEDS)

defects: ## plants defects one by one and tells how soon the simulation, or a test of its own, catches each
	go test -C internal/dev ./simulation -run TestDefects -count=1 -v -timeout 0 -plant .

# Gremlins runs a package's own tests for every mutant. All mutants of these packages take minutes. The root and ingest take
# hours: name PACKAGE=. and DIFF=main, or try a sample with internal/dev/mutants.
MUTATED = $(or $(PACKAGE),internal/poll internal/fileheader internal/jsonscan internal/tolerant internal/list internal/creates internal/redact)

mutants: ## small changes of a package, one by one (PACKAGE, DIFF), and whether its tests notice
	for package in $(MUTATED); do \
		go tool -modfile=internal/dev/tools/go.mod gremlins unleash --invert-assignments --invert-bitwise --invert-bwassign \
			--invert-logical --invert-loopctrl --remove-self-assignments --timeout-coefficient 10 --output-statuses lc \
			$(if $(DIFF),--diff $(DIFF)) ./$$package || exit; \
	done

fuzz: ## every fuzz target, each for so long (FUZZ)
	.ci/run fuzz $(FUZZ)

rehearse: ## a release in a scratch clone, used from outside as others would (VERSION)
	go run -C internal/dev/release . rehearse $(VERSION)

platforms: ## what can be shown here of Windows, macOS, 32 bits, ARM and a big-endian machine; wine, mingw and qemu have to be there
	.ci/platforms

check: ## most of what a change must pass; .ci/run modules and .ci/run fuzz 10s are the rest
	.ci/run

nightly: faults crashes simulate defects mutants fuzz rehearse ## what takes too long for every change
	.ci/run nightly
