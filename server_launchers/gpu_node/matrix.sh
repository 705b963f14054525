#!/usr/bin/env bash
# Measures every system at every concurrency, one `bench-client run` a cell, unattended on one GPU.
# Called again after a failure it goes on where it stopped. README.md lists the settings.
set -euo pipefail

systems=${SYSTEMS:-transformers transformers-eagle3 vllm vllm-eagle3 sglang sglang-eagle3}
read -ra systems <<<"$systems"
read -ra concurrencies <<<"${CONCURRENCIES:-1 2}"
read -ra extra <<<"${EXTRA_ARGS:-}"
results=${RESULTS:-results/matrix}
state=$results/matrix.tsv # a line a try: exit code, results folder, options of the cell

client=       # the process that measures, while one does
stopped=      # the exit code that a signal asks for
failed=0      # cells that failed
notes=()      # what became of each cell
declare -A at # results folder by "SYSTEM CONCURRENCY", of cells that ran to their end

say() { printf 'matrix: %s\n' "$*" >&2; }

# The client takes SIGTERM as Ctrl-C: it ends its server and keeps what was measured.
stop() {
  stopped=$1
  say "stopping"
  [[ -z $client ]] || kill -TERM "$client" 2>/dev/null || true
}

heed() {
  [[ -n $stopped ]] || return 0
  say "stopped; the same call again goes on from here"
  exit "$stopped"
}

python_of() {
  case $1 in
    transformers-eagle*) echo "${EAGLE_PYTHON:-}" ;;
    transformers*) echo "${TRANSFORMERS_PYTHON:-}" ;;
    vllm*) echo "${VLLM_PYTHON:-}" ;;
    sglang*) echo "${SGLANG_PYTHON:-}" ;;
  esac
}

# Sets `options`, what is measured, and `cell`, the same as one word: other settings, other cell.
choose() {
  local python
  python=$(python_of "$1")
  options=(--server "$1" --concurrency "$2" --scenario "${SCENARIO:-eleven-prompts}")
  [[ -z ${MODEL:-} ]] || options+=(--model "$MODEL")
  [[ -z ${MAX_TOKENS:-} ]] || options+=(--max-tokens "$MAX_TOKENS")
  [[ -z ${TEMPERATURE:-} ]] || options+=(--temperature "$TEMPERATURE")
  [[ -z ${REPEAT:-} ]] || options+=(--repeat "$REPEAT")
  [[ -z $python ]] || options+=(--engine-python "$python")
  options+=("${extra[@]}")
  cell=$(printf ' %q' "${options[@]}")
  cell=${cell# }
}

# Whether the try ran to its end: valid (0), or with failed requests or an invalid run (1).
complete() {
  [[ $code == [01] && $folder != - ]] &&
    grep -qs '"ended": *"complete"' "$results/$folder/run.json"
}

# Sets `code` and `folder` to those of the cell's last try, if that ran to its end.
recall() {
  local each_code each_folder each_cell
  code='' folder=-
  while IFS=$'\t' read -r each_code each_folder each_cell; do
    [[ $each_cell != "$cell" ]] || code=$each_code folder=$each_folder
  done <"$state"
  complete
}

folders() (
  export LC_ALL=C # the order that comm wants
  cd "$results"
  printf '%s\n' */
)

# Measures the cell; sets `code` and `folder`. In the background, so that signals are not put off,
# and in a process group of its own (set -m), so that Ctrl-C reaches it once, by `stop`.
try() {
  local before
  before=$(folders)
  set -m
  bench-client run "${options[@]}" --results "$results" &
  client=$!
  set +m
  while code=0; do
    wait "$client" || code=$? # a signal ends this wait, not the client
    kill -0 "$client" 2>/dev/null || break
  done
  client=
  folder=$(LC_ALL=C comm -13 <(echo "$before") <(folders) | tail -n 1)
  folder=${folder%/}
  folder=${folder:--}
  printf '%s\t%s\t%s\n' "$code" "$folder" "$cell" >>"$state"
}

refused() {
  [[ $code == 2 ]] || return 1
  local why
  why=$(bench-client launch "$1" --print --concurrency "$2" 2>&1 >/dev/null) || true
  [[ $why == *"one request at a time"* ]]
}

note() {
  local outcome
  if complete; then
    at["$1 $2"]=$results/$folder
    outcome=measured
    [[ $code == 0 ]] || outcome="FAILED: requests failed or the run is invalid, see its report"
  elif refused "$1" "$2"; then
    outcome="not run: $1 decodes one request at a time"
  else
    outcome="FAILED (exit code $code)"
  fi
  [[ $outcome != FAILED* ]] || failed=$((failed + 1))
  [[ $folder == - ]] || outcome+=", $results/$folder"
  notes+=("$1 at concurrency $2: $outcome")
}

measure() {
  choose "$1" "$2"
  if recall; then
    say "$1 at concurrency $2: was measured before"
  else
    heed
    say "$1 at concurrency $2: bench-client run $cell"
    try
    heed
  fi
  note "$1" "$2"
}

# All systems against the first, then each with EAGLE3 against the same without.
compare() {
  local system found=()
  for system in "${systems[@]}"; do
    [[ -z ${at["$system $1"]:-} ]] || found+=("${at["$system $1"]}")
  done
  ((${#found[@]})) || return 0
  printf '\nconcurrency %s\n' "$1"
  bench-client report "${found[@]}" --markdown >"$results/concurrency-$1.md"
  bench-client report "${found[@]}" --html >"$results/concurrency-$1.html"
  if ((${#found[@]} == 1)); then
    bench-client report "${found[@]}"
    return
  fi
  bench-client compare "${found[@]}"
  ((${#found[@]} > 2)) || return 0
  for system in "${systems[@]}"; do
    [[ -n ${at["$system $1"]:-} && -n ${at["$system-eagle3 $1"]:-} ]] || continue
    bench-client compare "${at["$system $1"]}" "${at["$system-eagle3 $1"]}"
  done
}

if ! command -v bench-client >/dev/null; then
  say "bench-client is not on the PATH: activate the environment that has it"
  exit 2
fi
mkdir -p "$results"
touch "$state"
trap '((!${#notes[@]})) || printf "%s\n" "" "${notes[@]}"' EXIT
trap 'stop 130' INT
trap 'stop 143' TERM HUP
for concurrency in "${concurrencies[@]}"; do
  for system in "${systems[@]}"; do
    measure "$system" "$concurrency"
  done
done
trap - INT TERM HUP
for concurrency in "${concurrencies[@]}"; do
  compare "$concurrency"
done
((failed == 0)) || exit 1
