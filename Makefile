# `make help` tells what there is. Nothing here needs more than Python 3.10, make 3.81 and a network.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory
# Notebooks run in the environment that starts them, not in a kernel that the user once registered.
export JUPYTER_PREFER_ENV_PATH := 1

RUN ?= household
RECIPE ?= recipes/household.yaml
PARAMS ?=
LAB ?=
GAMES ?=
EXTRAS := train,lab,dev
# Python 3.11 first: the lock file was tested there. The last is whatever the system calls python3.
PYTHONS := python3.11 python3.14 python3.13 python3.12 python3.10 python3

# Conda's base environment is active in many shells without being meant.
ifeq ($(CONDA_DEFAULT_ENV),base)
  ACTIVE := $(VIRTUAL_ENV)
else
  ACTIVE := $(or $(VIRTUAL_ENV),$(CONDA_PREFIX))
endif

ifdef PYTHON
  READY := check-python
else
  ENVIRONMENT := $(or $(ACTIVE),.venv)
  PYTHON := $(ENVIRONMENT)/bin/python
  READY := $(ENVIRONMENT)/.gagpo-ready
endif

.PHONY: help train test lab lint bench lock clean check-python

help:  ## this text
	@echo "GAGPO Workbench"
	@echo
	@sed -nE 's/^([a-z]+):.*## (.*)/\1@\2/p' Makefile | awk -F@ '{ printf "  make %-7s %s\n", $$1, $$2 }'
	@echo
	@echo "  The first command makes .venv and installs the project there. An active environment is used"
	@echo "  instead (conda's base excepted), and PYTHON=/path/to/python is used just as it is."
	@echo
	@echo "  make train RUN=mine RECIPE=recipes/other.yaml PARAMS='-p seed 1 -p lam 0.9'"
	@echo "  make lab LAB='--no-browser --port 8889'    (as root, in a container: LAB=--allow-root)"

train: $(READY)  ## train with recipes/household.yaml into runs/household; again resumes
	@echo "== training: $(RECIPE) into runs/$(RUN)"
	@mkdir -p "runs/$(RUN)"
	"$(PYTHON)" -m papermill notebooks/train.ipynb "runs/$(RUN)/train.ipynb" -f "$(RECIPE)" \
	  -p run_id "$(RUN)" $(PARAMS) --log-output --no-progress-bar

test: $(READY)  ## every test, and every notebook with its default parameters
	@echo "== testing: tests/ and notebooks/"
	"$(PYTHON)" -m pytest tests --nbval-lax notebooks --nbval-current-env --nbval-cell-timeout=300 \
	  --nbval-sanitize-with tests/nbval_sanitize.cfg

lab: $(READY)  ## JupyterLab on notebooks/
	@echo "== JupyterLab on notebooks/ (Ctrl-C ends it)"
	"$(PYTHON)" -m jupyterlab --ServerApp.root_dir="$(CURDIR)" --LabApp.default_url=/lab/tree/notebooks $(LAB)

lint: $(READY)  ## ruff: rules and format
	@echo "== ruff"
	"$(PYTHON)" -m ruff check .
	"$(PYTHON)" -m ruff format --check .

bench: $(READY)  ## the benchmarks; GAMES=/path/to/official/games adds these
	@echo "== benchmarks/credit_speed.py"
	"$(PYTHON)" benchmarks/credit_speed.py
	@echo "== benchmarks/envs.py"
	"$(PYTHON)" benchmarks/envs.py $(GAMES)

# The CUDA libraries are left out of the lock: torch names them itself, and not every machine has them.
lock:  ## renew requirements.lock from the bounds in pyproject.toml (needs python3.11)
	@echo "== the newest versions within bounds, in build/lock"
	rm -rf build/lock
	python3.11 -m venv build/lock
	build/lock/bin/python -m pip install --quiet -e ".[$(EXTRAS)]"
	build/lock/bin/python -m pip freeze --exclude-editable > build/lock/freeze
	grep '^#' requirements.lock > build/lock/renewed
	sed -E 's/\+[A-Za-z0-9.]+$$//; /^(nvidia|cuda|triton)/d' build/lock/freeze >> build/lock/renewed
	mv build/lock/renewed requirements.lock
	rm -rf build/lock
	git --no-pager diff --stat -- requirements.lock

clean:  ## remove caches and builds; .venv and runs/ stay
	@echo "== removing caches and builds"
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find gagpo widgets tests benchmarks notebooks \( -name __pycache__ -o -name .ipynb_checkpoints \) \
	  -prune -exec rm -rf {} +

# A Python that was named is asked whether it has what is needed, and left alone. Notebooks have a working
# folder of their own, so the project counts only where it is installed.
check-python:
	@"$(PYTHON)" -c 'import sys; sys.path = [path for path in sys.path if path]; \
	  import gagpo, widgets, papermill, peft, plotly, pytest, torch, transformers' || { \
	  echo "PYTHON=$(PYTHON) lacks something. To install it there:" >&2; \
	  echo "    $(PYTHON) -m pip install -c requirements.lock -e '.[$(EXTRAS)]'" >&2; \
	  exit 1; }

.venv/bin/python:
	@for python in $(PYTHONS); do \
	  if $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2> /dev/null; then \
	    echo "== making .venv with $$($$python --version)"; \
	    exec $$python -m venv .venv; \
	  fi; \
	done; \
	echo "No Python 3.10 or newer (with venv and ensurepip) answers to: $(PYTHONS)" >&2; exit 1

# The stamp is made last, so that an interrupted installation is taken up again.
%/.gagpo-ready: %/bin/python pyproject.toml requirements.lock
	@"$(PYTHON)" -m pip --version > /dev/null 2>&1 || "$(PYTHON)" -m ensurepip
	@set -e; if "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then \
	  echo "== installing the project and the tested versions (requirements.lock) into $*"; \
	  "$(PYTHON)" -m pip install --quiet -c requirements.lock -e ".[$(EXTRAS)]"; \
	else \
	  echo "== installing the project into $*, by the bounds in pyproject.toml: the lock is for Python 3.11"; \
	  "$(PYTHON)" -m pip install --quiet -e ".[$(EXTRAS)]"; \
	fi
	@touch "$@"
