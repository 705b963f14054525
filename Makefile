# make bench   the demonstration: two arms of the embedded engine, compared
# make test    lint, types, contracts and every test, real engines included
# make check   the same without the real engines
PYTHON ?= python3.11
BIN := .venv/bin
RIG := .engines/rig

.PHONY: bench test check engines lint unit clean benchmark same-server test-ray test-eagle

bench: .venv/ready
	$(BIN)/bench-client --server sim --server sim-eagle3 --concurrency 1 --max-tokens 176

test: lint engines
	$(BIN)/python -m pytest

check: lint unit

unit: .venv/ready
	$(BIN)/python -m pytest -m "not engine"

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Real vLLM and SGLang for CPU, each in its own environment, and a rigged model pair.
engines: .venv/ready
	tests/engines/build_vllm.sh
	tests/engines/build_sglang.sh
	$(MAKE) $(RIG)/rig.json

$(RIG)/rig.json: $(wildcard tests/rig/*.py)
	.engines/vllm/bin/python -m tests.rig.pair $(RIG)

# Workers on a local two-node Ray cluster; Ray is a big install, so it has an environment of its own.
test-ray:
	test -x .venv-ray/bin/python || $(PYTHON) -m venv .venv-ray
	.venv-ray/bin/python -m pip install -q -e '.[dev,ray]'
	.venv-ray/bin/python -m pytest -m ray tests/run/test_ray.py

# EAGLE's own code on the rigged pair. It is on no package index: EAGLE=a clone of SafeAILab/EAGLE.
test-eagle: engines
	@test -d "$(EAGLE)/eagle" || { echo "say where EAGLE is: make test-eagle EAGLE=CLONE" >&2; exit 2; }
	PYTHONPATH=$(abspath $(EAGLE)) tests/engines/build_engine.sh eagle
	EAGLE=$(abspath $(EAGLE)) $(BIN)/python -m pytest -m eagle tests/engines/test_eagle.py

# The client against a server that stamps its own writes, every installed peer beside it.
benchmark: .venv/ready
	$(BIN)/python -m benchmarks.accuracy
	$(BIN)/python -m benchmarks.workers

# sglang.bench_serving and bench-client on one real server.
same-server: engines
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.same_server --model $(RIG)/target

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .engines .mypy_cache .ruff_cache
