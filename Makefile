# All that people and CI need. `make demo` is the place to begin.

PYTHON ?= python3
VENV := .venv
MT := $(VENV)/bin/mt
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-slow test-processors test-sse4 test-avx2 test-avx512 test-torch test-other-systems soak fuzz check format peers clean

help:
	@echo "make demo       install, train on the embedded corpus, translate, evaluate (1 to 3 minutes on 2 cores, some 5 on older ones)"
	@echo "make test       fast tests (some 3 minutes on 2 cores, 7 on older ones)"
	@echo "make test-slow  tests that train for minutes"
	@echo "make test-processors  the numeric tests as three kinds of older x86-64 processors compute them"
	@echo "make test-torch TORCH=2.10.0  the numeric tests with another version of torch, in .venv-torch-2.10.0"
	@echo "make test-other-systems  the core of the fast tests without what Windows and macOS have not"
	@echo "make soak       kills and continues trainings for two hours, or MINUTES=10"
	@echo "make fuzz       lets atheris look for bytes that a reader does not survive, SECONDS=600 for each reader"
	@echo "make check      ruff and mypy"
	@echo "make peers      installs other toolkits for benchmarks/training.py"
	@echo "make clean      remove .venv, caches and runs/phrasebook"

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(VENV)/bin/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(VENV)/installed-fuzz: $(VENV)/installed-dev
	$(VENV)/bin/python -m pip install --quiet --editable '.[fuzz]'
	@touch $@

demo: $(VENV)/installed
	$(MT) train configs/phrasebook.yaml
	@printf '\nmt translate runs/phrasebook\n'
	@printf '%s\n' 我有一只猫 我昨天买的手机在桌子上。 你会说中文吗？ 她比我大三岁。 | tee -a /dev/stderr | $(MT) translate runs/phrasebook
	@printf '\nmt evaluate runs/phrasebook\n'
	@$(MT) evaluate runs/phrasebook
	@printf '\nmt export runs/phrasebook runs/phrasebook.html --to html\n'
	@rm -f runs/phrasebook.html
	@$(MT) export runs/phrasebook runs/phrasebook.html --to html
	@printf '\nThe run is in runs/phrasebook. Type sentences of your own with: %s translate runs/phrasebook\n' $(MT)

FAST_TESTS := $(VENV)/bin/python -m pytest -m "not slow" --numprocesses auto --maxprocesses 4 --dist worksteal

test: $(VENV)/installed-dev
	$(FAST_TESTS)

# torch, oneDNN and CTranslate2 choose their kernels by what the processor has, or by these variables.
NUMERIC := attention layers embeddings positions transformer objective packing training decoding search_options export device
test-sse4: IMITATED := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 CT2_FORCE_CPU_ISA=GENERIC
test-avx2: IMITATED := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 CT2_FORCE_CPU_ISA=AVX2
test-avx512: IMITATED := ONEDNN_MAX_CPU_ISA=AVX512_CORE

test-sse4 test-avx2 test-avx512: $(VENV)/installed-dev
	$(IMITATED) $(FAST_TESTS) $(NUMERIC:%=tests/test_%.py)

test-processors: test-sse4 test-avx2 test-avx512

# The oldest and the newest torch that pyproject.toml allows. PIP_INDEX=--index-url=https://download.pytorch.org/whl/cpu
# takes a build for CPUs, which is a tenth as large.
TORCH ?= 2.10.0
test-torch:
	$(PYTHON) -m venv .venv-torch-$(TORCH)
	PIP_CONSTRAINT= .venv-torch-$(TORCH)/bin/python -m pip install --quiet $(PIP_INDEX) torch==$(TORCH)
	PIP_CONSTRAINT= .venv-torch-$(TORCH)/bin/python -m pip install --quiet --editable '.[dev]' torch==$(TORCH)
	.venv-torch-$(TORCH)/bin/python -m pytest $(NUMERIC:%=tests/test_%.py)

# Left out is what does itself what Windows refuses, or wants Linux's word for a folder that cannot be read.
CORE := config corpus dataset batching reading schedule metrics run_dir
test-other-systems: $(VENV)/installed-dev
	PYTHONPATH=tests PYTHONIOENCODING=cp1252 $(VENV)/bin/python -m pytest -p other_systems $(CORE:%=tests/test_%.py) \
	    --deselect tests/test_corpus.py::test_missing_files_and_folders_are_named

test-slow: $(VENV)/installed-dev
	$(VENV)/bin/python -m pytest -m slow

soak: $(VENV)/installed
	$(VENV)/bin/python tests/soak.py --minutes $(or $(MINUTES),120)

fuzz: $(VENV)/installed-fuzz
	$(VENV)/bin/python tests/fuzz.py --seconds $(or $(SECONDS),600)

check: $(VENV)/installed-dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

format: $(VENV)/installed-dev
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

# For benchmarks/training.py; toolkits bring versions of their own, so each gets an environment of its own.
peers: benchmarks/.envs/eole/installed

benchmarks/.envs/%/installed: benchmarks/peers/%.txt
	$(PYTHON) -m venv $(@D)
	PIP_CONSTRAINT= $(@D)/bin/python -m pip install --quiet --requirement $<
	@touch $@

clean:
	rm -rf $(VENV) .venv-torch-* runs/phrasebook runs/phrasebook.html .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
