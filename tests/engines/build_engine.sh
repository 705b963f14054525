#!/usr/bin/env bash
# build_engine.sh NAME PACKAGE...: .engines/NAME from NAME-requirements.txt and the local PACKAGE
# folders, in an environment of its own. Kept as it is while the pins, the packages, this script and
# the Python (set PYTHON for another than python3.11) stay the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
name=$1
shift
packages=("${@/#/./}")
python=${PYTHON:-python3.11}
env=$(cd ../.. && pwd)/.engines/$name

stamp=$({
  "$python" -V
  cat build_engine.sh "$name-requirements.txt"
  ((${#packages[@]} == 0)) || find "${packages[@]}" -type f -not -name '*.pyc' | LC_ALL=C sort | xargs cat
} | sha256sum)
if [[ -f $env/stamp && $(<"$env/stamp") == "$stamp" ]]; then
  exit 0
fi

echo "building .engines/$name, a few minutes"
rm -rf "$env"
"$python" -m venv "$env"
"$env/bin/python" -m pip install -qq --no-deps -r "$name-requirements.txt"
((${#packages[@]} == 0)) || "$env/bin/python" -m pip install -qq --no-deps "${packages[@]}"
"$env/bin/python" -c "import $name"
echo "$stamp" >"$env/stamp"
