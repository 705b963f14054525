#!/usr/bin/env bash
# Builds .engines/vllm: vLLM for CPU, about 2 minutes and 2.5 GB. Needs Python 3.11 and PyPI only.
set -euo pipefail
"$(dirname "${BASH_SOURCE[0]}")/build_engine.sh" vllm vllm_fixes || {
  echo "where libcudnn is missing, pip took torch's CUDA build: see the top of vllm-requirements.txt" >&2
  exit 1
}
