#!/usr/bin/env bash
# The two peers that are no engine's own, each in an environment of its own under .engines/.
# What is there already is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3.11}
engines=${ENGINES:-.engines}

build() { # NAME REQUIREMENT...
    local home=$engines/peers-$1
    shift
    [ -x "$home/ready" ] && return
    "$python" -m venv "$home"
    "$home/bin/python" -m pip install -q "$@"
    install -m 755 /dev/null "$home/ready"
}

# guidellm needs a torch; the CPU's is the small one, from PyTorch's CPU index (PIP_EXTRA_INDEX_URL)
# where the usual index does not have it.
build guidellm 'torch==2.13.0+cpu' 'guidellm==0.8.1'
build aiperf 'aiperf==0.13.0'
