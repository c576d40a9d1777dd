# Everything a user or CI runs. `make demo` and `make test` work on a fresh machine with Python >= 3.11 and make.
.DELETE_ON_ERROR:
.PHONY: demo wheel wheel-test lock audit coverage site test test-fast test-long test-full models models-full kernel kernel-mutants sample style lint bench bench-peers mutation soak hunt reports fuzz clean help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo

help:
	@echo 'make demo       install, plan real models, prove the plans, refute a broken one'
	@echo 'make test       style, and all tests but the long and the nightly ones'
	@echo 'make test-fast  short unit and property tests alone'
	@echo 'make test-long  the long tests: TLC, types, whole sessions, crashes; CI runs them after make test'
	@echo 'make test-full  everything: ten seeds, larger bounds, samples of soak and mutation, torch and jax; for a night'
	@echo 'make models     the TLA+ models and their broken twins under TLC, which is fetched once'
	@echo 'make models-full  the same, with larger bounds too'
	@echo 'make kernel     install Coq if need be, prove the checker, and install its program'
	@echo 'make site       the pages of spec/ as a site in site/, which needs no network'
	@echo 'make wheel      dist/*.whl for Linux x86-64, with the program of that checker'
	@echo 'make wheel-test  build it, run the integration tests, type the pages, and a smoke run (PYTHONS="python3.12 …") on what it installs'
	@echo 'make lock       .ci/*.txt: the versions that CI installs, with their digests'
	@echo 'make audit      compare those versions with the known faults of packages'
	@echo 'make coverage   lines and branches of the verifier and the planner that tests run, and what none runs'
	@echo 'make kernel-mutants  break each part of that checker and of what is proved, and see a proof fail'
	@echo 'make sample     of what test-full runs in whole, a part each day: mutants of the kernel, a model with larger bounds'
	@echo 'make bench      the benchmark tables (SETS=folder EFFORT=N: sets of buffers as CSV, searched with that effort)'
	@echo 'make bench-peers  our verifier beside ExecuTorch'"'"'s, our planner beside tinygrad'"'"'s (EXECUTORCH=python TINYGRAD=python: those of yours)'
	@echo 'make mutation   change the source in single places: does a test notice? (MINUTES=60, FILES=... to choose)'
	@echo 'make soak       faults for every code of the verifier, graphs of six nodes, runs (MINUTES=60 for each)'
	@echo 'make fuzz       every reader of files, guided by coverage (MINUTES=60, READERS="npy onnx" to choose, INPUT=FILE to read a finding again)'
	@echo 'make hunt       random programs through the planners of other compilers (MINUTES=60, PLANNERS="litert vela" to choose,'
	@echo '                RECORD=FILE to show a finding again), which it installs: gigabytes; HUNT_VENVS=folder has them already'
	@echo 'make reports    the program of each report in spec/reports again: still wrong, or mended? (PROJECT="tinygrad litert" to choose)'

# A missing tool is named with the command that installs it.
define need_python
@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or later is needed: apt-get install python3 python3-venv, or set PYTHON=..."; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$$($(PYTHON) --version) is too old: Python 3.11 or later is needed; set PYTHON=python3.12"; exit 1; }
@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv is missing: apt-get install python3-venv"; exit 1; }
endef

PIP = $(BIN)/python -m pip install -q --disable-pip-version-check

# install EXTRA [LOCK]: with LOCKED=1, as CI has it, the versions of that file, each compared with its digest.
define install
@echo 'installing tmmu and what it needs into $(VENV); a minute or two'
@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
$(if $(and $(LOCKED),$(2)),@$(PIP) --require-hashes -r $(2) && $(PIP) --no-deps --no-build-isolation -e .,@$(PIP) -e '.[$(1)]')
endef

# The stamps hold what was installed, so a changed pyproject.toml installs again.
$(VENV)/user: pyproject.toml
	$(need_python)
	$(call install,report,.ci/user.txt)
	@touch $@

$(VENV)/dev: pyproject.toml
	$(need_python)
	$(call install,dev,.ci/dev.txt)
	@touch $@ $(VENV)/user

demo: $(VENV)/user
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/demo.sh $(DEMO)

style: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint: style
	$(BIN)/mypy

# Tests start many commands; each would compile all that it imports, where the environment forbids to keep that.
test test-fast test-long test-full: export PYTHONDONTWRITEBYTECODE :=

# The seconds over which a test is a long one: those of tests/support/durations.json.
LONG := 0.5
DAILY = PATH="$(CURDIR)/$(BIN):$$PATH" HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-ci} $(BIN)/pytest -q -n 2 --dist worksteal tests/unit tests/property tests/corpus tests/integration

test-fast: $(VENV)/dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -q -n 2 --dist worksteal --at-most 0.05 tests/unit tests/property

test: style
	$(DAILY) --at-most $(LONG)

test-long: $(VENV)/dev
	$(DAILY) --longer-than $(LONG)

# What torch and jax trace is tested with both installed, sizes with a runtime, and sessions with ggml and llama.cpp.
$(VENV)/tracers: $(VENV)/dev
	@$(PIP) -e '.[dev,torch,jax,judges,oracle,ggml,site]'
	@touch $@

test-full: $(VENV)/tracers style
	PATH="$(CURDIR)/$(BIN):$$PATH" HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-full} $(BIN)/pytest -q -n 2 --dist worksteal tests
	$(BIN)/check-models --mutants --full
	@$(PYTHON) -m tests.integration.kernel.mutants
	$(MAKE) mutation soak MINUTES=$(SAMPLE)

models: $(VENV)/dev
	$(BIN)/check-models --mutants

models-full: $(VENV)/dev
	$(BIN)/check-models --mutants --full

# The verifier uses what this installs wherever it stands; a second run does nothing.
kernel:
	$(need_python)
	@$(PYTHON) -m proofs.proving.kernel.install

# Linux on x86-64: the wheel has the kernel's program, linked statically.
wheel: kernel $(if $(LOCKED),$(VENV)/dev)
	@TMMU_WHEEL_WITH_KERNEL=1 $(if $(LOCKED),$(BIN)/python,$(PYTHON)) -m pip wheel -q --disable-pip-version-check \
		--no-deps $(if $(LOCKED),--no-build-isolation) -w dist .
	@ls dist/*.whl

# The wheel as users have it: smoke runs on PYTHONS, the integration tests and the pages on one, from a folder without the sources.
PYTHONS ?= $(PYTHON)
wheel-test: wheel
	@sh .ci/wheel.sh $(PYTHON) $(PYTHONS)

# The versions that CI installs, each with its digests, for every system and Python that pyproject.toml admits.
UV := $(VENV)/uv/bin
LOCK = $(UV)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	--no-annotate --upgrade

$(UV)/uv:
	$(need_python)
	@$(PYTHON) -m venv $(VENV)/uv
	@$(UV)/python -m pip install -q --disable-pip-version-check uv pip-audit

lock: $(UV)/uv
	@$(LOCK) --extra report pyproject.toml .ci/build.in -o .ci/user.txt
	@$(LOCK) --extra dev pyproject.toml .ci/build.in -o .ci/dev.txt

# Exit code 1: a package has a known fault. Where the service of pip-audit is out of reach, that is said.
audit: $(UV)/uv
	@$(UV)/python .ci/audit.py $(UV)/pip-audit .ci/dev.txt

coverage: $(VENV)/dev
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.benchmarks.coverage

$(VENV)/site: pyproject.toml
	$(need_python)
	$(call install,site)
	@touch $@

site: $(VENV)/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -f .github/site/mkdocs.yml
	@echo "wrote site/index.html"

kernel-mutants:
	$(need_python)
	@$(PYTHON) -m tests.integration.kernel.mutants

# Of what only test-full runs in whole, a part each day: mutants of the kernel, a model with larger bounds.
sample: $(VENV)/dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.nightly.sample

bench: $(VENV)/dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.benchmarks
	$(if $(SETS),PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.benchmarks.sets $(SETS) $(EFFORT))

# The peers are installed apart, each into an environment of its own; or name Pythons that have them.
PEERS := .venv-peers
EXECUTORCH ?= $(PEERS)/executorch/bin/python
TINYGRAD ?= $(PEERS)/tinygrad/bin/python

$(PEERS)/%/bin/python:
	$(need_python)
	@$(PYTHON) -m venv $(PEERS)/$*
	@$(PEERS)/$*/bin/python -m pip install -q --disable-pip-version-check $(PEER_$*)

PEER_executorch := executorch==1.5.1
PEER_tinygrad := tinygrad==0.14.0

bench-peers: $(VENV)/dev $(EXECUTORCH) $(TINYGRAD)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.benchmarks.peers $(EXECUTORCH) $(TINYGRAD) $(SIZES)

MINUTES ?= 60
SAMPLE ?= 10

mutation: $(VENV)/dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.nightly.mutation --minutes $(MINUTES) $(if $(FILES),--files $(FILES))

soak: $(VENV)/dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.nightly.soak.plans --minutes $(MINUTES)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.nightly.soak.graphs --minutes $(MINUTES)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.nightly.soak.simulator --minutes $(MINUTES)

hunt: $(VENV)/dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.nightly.hunt $(if $(RECORD),--replay $(RECORD),--minutes $(MINUTES) $(if $(PLANNERS),--planners "$(PLANNERS)"))

reports:
	$(need_python)
	@$(PYTHON) -m tests.nightly.hunt.rerun $(PROJECT)

$(VENV)/fuzz: $(VENV)/dev
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev,fuzz]'
	@touch $@

fuzz: $(VENV)/fuzz
	PATH="$(CURDIR)/$(BIN):$$PATH" nice $(BIN)/python -m tests.nightly.fuzz $(if $(INPUT),--replay $(INPUT),--minutes $(MINUTES) $(if $(READERS),--readers $(READERS)))

clean:
	rm -rf $(VENV) $(PEERS) $(DEMO) dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
