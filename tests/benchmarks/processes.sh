#!/bin/sh
# Whole processes, as a shell or a CI job pays for them: one estimate beside `jq .` on the same file
# and beside a start that does nothing. Prints means and ratios.
#
#     tests/benchmarks/processes.sh [SPEC_OR_CONFIG [ESTIMATE_FLAG...]]
#
# MEMBUDGET names the program; build/membudget is the default. Needs hyperfine and jq.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
program=${MEMBUDGET:-$root/build/membudget}
file=${1:-$root/examples/quickstart.json}
if [ $# -gt 0 ]; then shift; fi

for needed in hyperfine jq "$program"; do
  if ! command -v "$needed" >/dev/null; then echo "error: $needed not found" >&2; exit 1; fi
done
results=$(mktemp)
trap 'rm -f "$results"' EXIT

# Exit 1 is an answer too: over budget.
hyperfine --shell=none --ignore-failure --warmup 20 --min-runs 200 --style none \
  --export-json "$results" \
  --command-name estimate "$program estimate $file $*" \
  --command-name 'jq .' "jq . $file" \
  --command-name version "$program --version" >/dev/null 2>&1

if jq -e '[.results[].exit_codes[]] | max > 1' "$results" >/dev/null; then
  echo "error: a command failed; try: $program estimate $file $*" >&2
  exit 1
fi
jq -r '
  def ms: . * 1e6 | round / 1e3 | tostring + " ms";
  def times: . * 100 | round / 100 | tostring;
  (.results[0].mean) as $estimate
  | .results[]
  | "\(.command): \(.mean | ms) +- \(.stddev | ms); estimate / this = \($estimate / .mean | times)"
' "$results"
