# make test   everything CI runs          make demo   the main job on an embedded script
# make lint   ruff, mypy, layers          make docs   regenerate the generated pages
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MEASURING := tests/cli/test_tune.py tests/cli/test_verdicts.py
STUDIES := tests/cli/test_study.py

define apt
	test -x $(1) || DEBIAN_FRONTEND=noninteractive timeout 180 sh -c \
	'apt-get install --yes --no-install-recommends $(2) || \
	{ apt-get update && apt-get install --yes --no-install-recommends $(2); }' >/dev/null 2>&1
endef

.PHONY: install lint unit test tests test-torch test-lowest test-gpu browser slurm demo docs clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[test]"
	touch $@

lint: install
	$(BIN)/ruff check src tests bench docs examples
	$(BIN)/ruff format --check src tests bench docs examples
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: install
	$(BIN)/pytest tests/unit tests/contract

browser:  # a real one for tests/browser, which is skipped where there is none; as root, with apt
	$(call apt,/usr/bin/chromium,chromium fonts-dejavu-core)

slurm:  # a real one for tests/cli/test_slurm.py, which is skipped where there is none; as root, with apt
	$(call apt,/usr/sbin/slurmctld,slurm-wlm)

test: lint
	$(MAKE) tests

tests:
	$(BIN)/pytest -n 3 --dist worksteal tests/unit tests/contract
	$(BIN)/pytest -n 2 tests/browser
	$(BIN)/pytest -n 3 --dist worksteal tests/cli $(foreach file,$(MEASURING) $(STUDIES),--ignore $(file))
	$(BIN)/pytest -n 2 --dist load --maxschedchunk 1 $(MEASURING)  # the long ones stand first
	$(BIN)/pytest -n 2 --dist load --maxschedchunk 1 $(STUDIES)  # these take all cores they get

test-torch:  # every test with another torch: make test-torch TORCH=2.4.1 (a build for CUDA, gigabytes)
	test -x .venv-$(TORCH)/bin/python || $(PYTHON) -m venv .venv-$(TORCH)
	grep -v '^torch==' constraints.txt >.venv-$(TORCH)/constraints.txt
	.venv-$(TORCH)/bin/pip install --quiet --constraint .venv-$(TORCH)/constraints.txt \
	torch==$(TORCH) --editable ".[test]"
	$(MAKE) tests VENV=.venv-$(TORCH)

test-lowest:  # every test with the oldest versions that pyproject.toml allows of all but torch
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	grep -E -v '^(jinja2|plotly)=' constraints.txt >.venv-lowest/constraints.txt
	sed -n '/^dependencies/,/^]/s/^ *"\([a-z0-9-]*\)>=\([0-9.]*\)",$$/\1==\2/p' pyproject.toml \
	>>.venv-lowest/constraints.txt
	echo 'click<8.4' >>.venv-lowest/constraints.txt  # warns of what such a typer does
	.venv-lowest/bin/pip install --quiet --constraint .venv-lowest/constraints.txt torch
	.venv-lowest/bin/pip install --quiet --constraint .venv-lowest/constraints.txt --editable ".[test]"
	$(MAKE) tests VENV=.venv-lowest

test-gpu: install  # on a machine with a CUDA GPU and a torch built for it
	$(BIN)/pytest tests/gpu

demo: install
	$(BIN)/hotlap tune --budget 140s --force examples/slow.py

docs: install
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hotlap dist
