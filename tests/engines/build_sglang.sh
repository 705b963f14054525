#!/usr/bin/env bash
# Builds .engines/sglang: SGLang for CPU, plain decoding only (it refuses EAGLE3 there). About
# 3 minutes and 3.5 GB. Needs Python 3.11 and PyPI only.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/build_engine.sh" sglang stubs
