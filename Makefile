# go-helm-operator: everything a developer or CI runs, by name. `make` alone lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# What `bin/manager --version` says, and the tag of the image.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
IMAGE   ?= localhost:5000/go-helm-operator:$(VERSION)

# Test packages run two at a time: each may start a control plane of about 400 MiB.
TEST_PARALLEL ?= 2
TEST_TIMEOUT  ?= 25m
TEST_ARGS     ?=

# Static and reproducible: the image is FROM scratch, and the same sources give the same bytes. For all targets alike, so that tests,
# linter and build share what they compile; it is most of what a cold run costs.
export CGO_ENABLED := 0
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

GO_BUILD := go build -ldflags '-s -w -X main.version=$(VERSION)'

# The linter and the generators are pinned in modules of their own; `go tool` builds each once and keeps it in Go's build cache.
GOLANGCI_LINT := go tool -modfile=hack/tools/lint/go.mod golangci-lint

# The Go modules besides the main one that hold code of ours.
NESTED_MODULES := $(patsubst %/go.mod,%,$(shell git ls-files 'test/*go.mod' 'examples/*go.mod'))

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/manager and bin/go-helm-operator, static
	$(GO_BUILD) -o bin/manager ./cmd/manager
	$(GO_BUILD) -o bin/go-helm-operator ./cmd/go-helm-operator

.PHONY: test
test: ## Run every test, against a real control plane and a real registry on loopback
	@# The first build of the control plane takes minutes, which are not a test's to spend.
	@go run ./test/cluster/cmd build
	@# -count=1: results must not come from the cache while the things tested against (scripts, charts, images) are no Go inputs.
	go test -count=1 -p $(TEST_PARALLEL) -timeout $(TEST_TIMEOUT) $(TEST_ARGS) ./...

.PHONY: demo
demo: ## Show the whole story on a local control plane; DEMO=exit ends by itself
	go run ./test/demo

.PHONY: cluster-up
cluster-up: ## Start a local control plane and print how to use it
	go run ./test/cluster/cmd up

.PHONY: cluster-down
cluster-down: ## Stop the local control plane and remove what it left
	go run ./test/cluster/cmd down

.PHONY: generate
generate: ## Regenerate types, CRD, roles, sample, deepcopy and clients from the chart
	hack/gen_from_liberty_chart.sh

.PHONY: verify
verify: ## Regenerate, check modules, format, lint and docs; fail if the tree changed
	hack/verify.sh

.PHONY: lint
lint: ## Run golangci-lint on all modules, and shellcheck
	$(GOLANGCI_LINT) run
	@# A module of its own is linted from its own folder; the configuration is found from there.
	@for module in $(NESTED_MODULES); do \
	  echo "lint $$module"; (cd "$$module" && go tool -modfile='$(CURDIR)/hack/tools/lint/go.mod' golangci-lint run); \
	done
	shellcheck -x hack/*.sh .ci/run

.PHONY: image
image: ## Build the operator's image as $IMAGE with docker, podman or buildah; PUSH=true pushes it
	IMAGE='$(IMAGE)' VERSION='$(VERSION)' hack/build_image.sh

# The binary that goes into the image; hack/build_image.sh asks for it.
.PHONY: image-binary
image-binary:
	GOOS=linux $(GO_BUILD) -o build/_output/image/manager ./cmd/manager

.PHONY: vendor
vendor: ## Write vendor/ and prove that the build works offline from it
	go mod vendor
	GOPROXY=off GOFLAGS='$(GOFLAGS) -mod=vendor' go build -o /dev/null ./cmd/manager
	GOPROXY=off GOFLAGS='$(GOFLAGS) -mod=vendor' go build -o /dev/null ./cmd/go-helm-operator

.PHONY: clean
clean: ## Stop the local control plane and remove what the targets above build
	@[[ ! -e build/_output/cluster ]] || $(MAKE) --no-print-directory cluster-down
	rm -rf bin build/_output vendor
