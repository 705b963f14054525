#!/usr/bin/env bash
# Measures every system at every concurrency, one `bench-client run` a cell, unattended on one GPU.
# Called again after a failure it goes on where it stopped. README.md lists the settings.
set -euo pipefail

if (($#)); then
  echo "usage: matrix.sh, with its settings in the environment: SYSTEMS, CONCURRENCIES, SCENARIO,"
  echo "RESULTS, MODEL and others, which ${BASH_SOURCE[0]%/*}/README.md lists"
  [[ $* == --help ]] && exit 0
  exit 2
fi >&"$([[ $* == --help ]] && echo 1 || echo 2)"

systems=${SYSTEMS:-transformers transformers-eagle3 vllm vllm-eagle3 sglang sglang-eagle3}
read -ra systems <<<"$systems"
read -ra concurrencies <<<"${CONCURRENCIES:-1 2}"
read -ra extra <<<"${EXTRA_ARGS:-}"
results=${RESULTS:-results/matrix}
state=$results/matrix.tsv # a line a try: exit code, results folder, options of the cell, their files

client=       # the process that measures, while one does
stopped=      # the exit code that a signal asks for
failed=0      # cells that failed
stuck=        # set once a server has left something behind that the next would meet
notes=()      # what became of each cell
naming=()     # options in EXTRA_ARGS that say what a system's name means
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

# One matrix a folder: two would measure the same cells. The client holds the lock too, so that
# one that outlives a killed matrix is not met by the next. Not every file system has locks.
lock() {
  local code=0
  exec {locked}>>"$state"
  flock --nonblock --conflict-exit-code 75 "$locked" 2>/dev/null || code=$?
  if ((code == 75)); then
    say "another matrix is at work in $results: wait for it, or set RESULTS to another folder"
    exit 2
  fi
}

# Ends where there is no such system.
check_system() {
  local said
  if ! said=$(bench-client launch "$1" --print "${naming[@]}" 2>&1); then
    say "SYSTEMS: ${said#bench-client: }"
    exit 2
  fi
}

# What every cell would fail by is said before the first is measured.
check() {
  local i each
  for ((i = 0; i < ${#extra[@]}; i++)); do
    case ${extra[i]} in
      --presets) naming+=(--presets "${extra[i + 1]:-}") ;;
      --presets=*) naming+=("${extra[i]}") ;;
    esac
  done
  for each in "${concurrencies[@]}"; do
    if [[ ! $each =~ ^[1-9][0-9]{0,4}$ ]]; then
      say "CONCURRENCIES: $each is no number of requests in flight"
      exit 2
    fi
  done
  for each in "${systems[@]}"; do
    check_system "$each"
  done
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

# Whatever the options name that is a file may change under the same name: a scenario, presets.
# The presets in the home say what a model's name means, too.
contents() {
  local each file found=()
  for each in "${extra[@]}" "${SCENARIO:-}" ~/.config/bench-client/presets.toml; do
    file=${each#--*=}
    [[ ! -f $file ]] || found+=("$file")
  done
  ((!${#found[@]})) || cat -- "${found[@]}" | sha256sum | cut -c -16
}

# Whether the try ran to its end: valid (0), or with failed requests or an invalid run (1).
complete() {
  [[ $code == [01] && $folder != - ]] &&
    grep -qs '"ended": *"complete"' "$results/$folder/run.json"
}

# Sets `code` and `folder` to those of the cell's last try, if that ran to its end.
recall() {
  local each_code each_folder each_cell each_files
  code='' folder=-
  while IFS=$'\t' read -r each_code each_folder each_cell each_files; do
    [[ $each_cell != "$cell" || $each_files != "$files" ]] ||
      code=$each_code folder=$each_folder
  done <"$state"
  complete
}

# Measures the cell in a folder of its own; sets `code` and `folder`. In the background, so that
# signals are not put off, and in a process group of its own (set -m), so that Ctrl-C reaches it
# once, by `stop`. What it says goes to a file. Its port is no setting of the cell.
try() {
  local own reader
  own=$(mktemp --directory "$results/$1-c$2.XXXXXX")
  chmod "$(printf '%o' $((0777 & ~$(umask))))" "$own" # mktemp's is for one's own eyes
  : >"$own/said"
  set -m
  bench-client run ${PORT:+--port "$PORT"} "${options[@]}" --results "$own" 2>>"$own/said" &
  client=$!
  (
    trap '' INT TERM HUP # scancel reaches every process, and the last words are still to come
    exec tail --follow --bytes +1 --pid "$client" --sleep-interval 0.2 "$own/said" >&2
  ) &
  reader=$!
  set +m
  while code=0; do
    wait "$client" || code=$? # a signal ends this wait, not the client
    kill -0 "$client" 2>/dev/null || break
  done
  client=
  wait "$reader" || true
  said=$(<"$own/said")
  folder=$(cd "$own" && printf '%s' */)
  folder=${folder%/}
  if [[ -d $own/$folder ]]; then
    folder=${own##*/}/$folder
  else # refused before anything was launched
    rm -r "$own"
    folder=-
  fi
  printf '%s\t%s\t%s\t%s\n' "$code" "$folder" "$cell" "$files" >>"$state"
}

# A server that left memory or its port in use would spoil every cell to come.
left_behind() {
  [[ $folder != - ]] && grep -qsE '"teardown": *\[([^]]|$)' "$results/$folder/run.json"
}

refused() { [[ $code == 2 && $said == *"one request at a time"* ]]; }

note() {
  local outcome
  if complete; then
    at["$1 $2"]=$results/$folder
    outcome=measured
    [[ $code == 0 ]] || outcome="FAILED: requests failed or the run is invalid, see its report"
  elif refused; then
    outcome="not run: $1 decodes one request at a time"
  else
    outcome="FAILED (exit code $code)"
  fi
  [[ $outcome != FAILED* ]] || failed=$((failed + 1))
  [[ $folder == - ]] || outcome+=", $results/$folder"
  notes+=("$1 at concurrency $2: $outcome")
}

measure() {
  said=
  choose "$1" "$2"
  if recall; then
    say "$1 at concurrency $2: was measured before"
  else
    heed
    say "$1 at concurrency $2: bench-client run $cell"
    try "$1" "$2"
    heed
    ! left_behind || stuck=1
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
check
mkdir -p "$results"
lock
files=$(contents)
trap '((!${#notes[@]})) || printf "%s\n" "" "${notes[@]}"' EXIT
trap 'stop 130' INT
trap 'stop 143' TERM HUP
for concurrency in "${concurrencies[@]}"; do
  for system in "${systems[@]}"; do
    measure "$system" "$concurrency"
    [[ -z $stuck ]] || break 2
  done
done
trap - INT TERM HUP
for concurrency in "${concurrencies[@]}"; do
  compare "$concurrency"
done
if [[ -n $stuck ]]; then
  say "ends here: the last server left something behind (see above); free it and call again"
  exit 3
fi
((failed == 0)) || exit 1
