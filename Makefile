# Every target sets up what it needs: a virtual environment in .venv with the versions of
# constraints.txt. Python 3.10 or newer with pip is all that is assumed. Useful settings:
#   make demo PYTHON=/path/to/python3.12      another Python for the environment
#   make test WORKERS=4 ARGS='-k cosine'      test processes; more arguments for pytest

SHELL := bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/installed
EXTRAS ?= dev,serving,serve,search,tune,baselines,docs
WORKERS ?= 2
ARGS ?=
PYTEST = $(PY) -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# The stamp holds the checkout's path: an environment that was copied or moved is made again.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
$(STAMP): again
endif

.PHONY: help venv demo test test-long test-changed test-all test-backends test-keras test-cpus test-engines \
  test-opensearch bench check docs format constraints protos release clean again

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP)  ## make .venv (the other targets do it by themselves)
	@true

$(STAMP): setup.py constraints.txt
	@clear=; [ "$$(cat $@ 2>/dev/null)" = "$(CURDIR)" ] || clear=--clear; rm -f $@; \
	python=; for candidate in "$(PYTHON)" python3 python3.13 python3.12 python3.11 python3.10; do \
	  if [ -n "$$candidate" ] && "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	    >/dev/null 2>&1; then python=$$candidate; break; fi; done; \
	if [ -z "$$python" ]; then \
	  echo "make: no Python 3.10 or newer found; name one: make PYTHON=/path/to/python3.11" >&2; \
	  exit 1; fi; \
	echo "Making $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv $$clear $(VENV) || { \
	  echo "make: '$$python -m venv' failed; some systems ship it apart (python3-venv)" >&2; exit 1; }
	@echo "Installing dssm-tf[$(EXTRAS)] and what it needs: some minutes and 2 GB the first time"
	@set -o pipefail; \
	$(PY) -m pip install --disable-pip-version-check -e '.[$(EXTRAS)]' -c constraints.txt 2>&1 \
	  | tee $(VENV)/install.log \
	  | awk '/^(Collecting|Processing) / {n++; if (n % 20 == 0) {print "  " n " packages found"; fflush()}} \
	         /^Installing collected/ {print "  unpacking " NF - 3 " packages"; fflush()}' \
	  || { grep -v '^WARNING' $(VENV)/install.log | tail -n 15 >&2; \
	       echo "make: the installation failed; all of it is in $(VENV)/install.log" >&2; exit 1; }
	@echo "$(CURDIR)" > $@

demo: $(STAMP)  ## train, compare and search on bundled questions; writes build/demo/index.html
	@echo "Training and comparing two models on bundled questions: a few minutes"
	@$(VENV)/bin/dssm demo --out build/demo

test: $(STAMP)  ## the default tests (no long, slow, gpu or benchmark ones)
	@echo "Running the default tests: about six minutes on two cores"
	@$(PYTEST) $(ARGS)

OTHERS := not slow and not gpu and not benchmark and not engines and not search_engines
test-long: $(STAMP)  ## the tests that take more than about four seconds each; CI runs them too
	@echo "Running the long tests: about fifteen minutes on two cores"
	@$(PYTEST) -m 'long and $(OTHERS)' $(ARGS)

test-changed: SINCE ?= main
test-changed: $(STAMP)  ## the tests that the changes since the commit SINCE=main can touch
	@files=$$($(PY) -m tests.changed $(SINCE)) || exit 1; \
	if [ -n "$$files" ]; then $(PYTEST) -m '$(OTHERS)' $$files $(ARGS); \
	else echo "No test imports what has changed since $(SINCE)."; fi

test-all: $(STAMP)  ## the slow tests too
	@$(PYTEST) -m 'not gpu and not benchmark and not engines' $(ARGS)

test-cpus: $(STAMP)  ## the tests that compare floats, as other CPUs and thread counts compute them
	@$(PY) -m tests.cpus $(ARGS)

test-backends: $(STAMP)  ## towers and losses on PyTorch too, which this installs (JAX is in `make test`)
	@$(PY) -m pip install -q --disable-pip-version-check torch -c constraints.txt
	@$(PY) -m pytest -q -m 'slow or not slow' tests/towers/test_backends.py $(ARGS)

test-keras: LOWEST = $(shell sed -n 's/.*"keras>=\([0-9.]*\),.*/\1/p' setup.py)
test-keras: $(STAMP)  ## what rests on Keras's internals, on the lowest Keras that setup.py allows
	@$(PY) -m pip install -q --disable-pip-version-check --no-deps --upgrade \
	  --target build/keras-$(LOWEST) 'keras==$(LOWEST).*,<=$(LOWEST).0'
	@PYTHONPATH=build/keras-$(LOWEST) $(PY) -m pytest -q -m keras tests/training tests/optimizers tests/common $(ARGS)

# tests/engines/pom.xml has the versions of Flink and of Beam's job servers; Prism is of Beam's.
test-engines: BEAM = $(shell sed -n 's/^apache-beam==//p' constraints.txt)
test-engines: INTO = $(CURDIR)/build/engines
test-engines: ENGINES ?= flink spark tensorflow prism
test-engines: $(STAMP)  ## the pipelines on Flink and Spark, TensorFlow's Java API (Java, Maven), Prism (Go)
	@if command -v mvn >/dev/null && command -v java >/dev/null; then \
	  for engine in $(filter-out prism,$(ENGINES)); do mvn -q -B -f tests/engines/pom.xml -P$$engine \
	    dependency:copy-dependencies -DoutputDirectory=$(INTO)/$$engine || { rm -rf $(INTO)/$$engine; \
	    echo "make test-engines: Maven could not fetch $$engine: its tests are skipped"; }; done; \
	  [ -z "$(filter spark,$(ENGINES))" ] || [ -d $(INTO)/pyspark ] || \
	    $(PY) -m pip install -q --disable-pip-version-check --no-deps \
	      --target $(INTO)/pyspark pyspark==3.5.9; \
	else echo "make test-engines: Java 11 or newer and Maven are missing (apt install default-jdk" \
	  "maven): the tests of $(filter-out prism,$(ENGINES)) are skipped"; fi
	@[ -z "$(filter prism,$(ENGINES))" ] || if command -v go >/dev/null; then \
	  GOBIN=$(INTO)/bin go install github.com/apache/beam/sdks/v2/go/cmd/prism@v$(BEAM); \
	else echo "make test-engines: Go is missing (apt install golang): the tests of prism are skipped"; fi
	@$(PY) -m pytest -q -m 'engines or not engines' tests/engines $(ARGS)

# tests/search_engines/pom.xml has the versions of the nodes.
test-opensearch: JARS = $(CURDIR)/build/search_engines
test-opensearch: SEARCH_ENGINES ?= opensearch
test-opensearch: $(STAMP)  ## an export on a real node (Java 17, Maven); also SEARCH_ENGINES=elasticsearch8
	@if command -v mvn >/dev/null && command -v javac >/dev/null; then \
	  for engine in $(SEARCH_ENGINES); do [ -d $(JARS)/$$engine ] || \
	    mvn -q -B -f tests/search_engines/pom.xml -P$$engine dependency:copy-dependencies \
	    -DoutputDirectory=$(JARS)/$$engine || { rm -rf $(JARS)/$$engine; \
	    echo "make test-opensearch: Maven could not fetch $$engine: its tests are skipped"; }; done; \
	else echo "make test-opensearch: Java 17 or newer and Maven are missing (apt install default-jdk" \
	  "maven): the tests on nodes are skipped"; fi
	@SEARCH_ENGINES='$(SEARCH_ENGINES)' $(PY) -m pytest -q -m search_engines tests/search_engines $(ARGS)

bench: $(STAMP)  ## the speed of preprocess, measured
	@$(PY) -m pytest -s -m benchmark tests/benchmarks $(ARGS)

check: $(STAMP)  ## format, lint, types and the import rules; changes nothing
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports

docs: $(STAMP)  ## README, docs/ and the Python interface as a site, in build/docs
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make docs: needs Python 3.11 or newer")'
	@$(PY) -m sphinx -q -W --keep-going -c docs -d build/docs-state . build/docs
	@echo "Written: build/docs/index.html"

format: $(STAMP)  ## format the code and fix what ruff can fix
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

constraints: PYTHONS ?= python3.10 python3.11 python3.12 python3.13
constraints:  ## resolve constraints.txt anew on all of PYTHONS
	@python3 .ci/constraints.py $(PYTHONS) > constraints.txt.new
	@mv constraints.txt.new constraints.txt

# The last protoc whose code asks for no particular protobuf: it runs with 4.25 and all later ones.
protos: GRPCIO_TOOLS = grpcio-tools==1.62.3
protos:  ## make *_pb2.py of every .proto file anew (with a Python of 3.10 to 3.12)
	@"$(if $(PYTHON),$(PYTHON),python3)" -m venv build/protos
	@build/protos/bin/python -m pip install -q --disable-pip-version-check $(GRPCIO_TOOLS) setuptools
	@build/protos/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. \
	  $$(git ls-files '*.proto')

release:  ## the wheel and the sdist in dist/, one of them tested in a fresh environment of PYTHON
	@PYTHON='$(PYTHON)' .ci/release $(ARGS)

clean:  ## remove .venv, build/ and all caches
	@rm -rf $(VENV) build dist *.egg-info .cache .hypothesis .import_linter_cache .mypy_cache \
	  .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
