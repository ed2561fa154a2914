# Two commands do everything on a fresh machine with Python >= 3.11, a C++ compiler and make:
#   make run     build, install into .venv and run the main job
#   make test    the same, and run the tests

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: run test test-slow check format bench clean

run: $(INSTALLED)
	mkdir -p out
	$(BIN)/ebo run examples/rover.toml
	$(BIN)/ebo report examples/rover.toml -o out/rover.html

test: $(INSTALLED)
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

test-slow: $(INSTALLED)
	$(BIN)/python -m pytest -m slow

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)
	$(BIN)/ebo bench gibbs

clean:
	rm -rf .venv build out

# Editable: Python sources are used in place; the core is built anew when its sources change.
$(INSTALLED): pyproject.toml CMakeLists.txt $(wildcard native/*)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(INSTALLED)
