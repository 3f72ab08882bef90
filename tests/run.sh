#!/bin/sh
# Runs every test: installs what is missing, builds with warnings as errors, and says how it went.
#
#     tests/run.sh         the tests
#     tests/run.sh --ci    and the same under sanitizers, with the fuzz targets
#
# Model configs, traces and job files of other projects are tested where there are any: in the
# folder that MEMBUDGET_CORPUS names, or in ../shared/data.
set -eu
cd "$(dirname "$0")/.."

ci=no
case "${1-}" in
  "") ;;
  --ci) ci=yes ;;
  *) echo "usage: tests/run.sh [--ci]" >&2; exit 2 ;;
esac

if [ -z "${MEMBUDGET_CORPUS-}" ] && [ -d ../shared/data ]; then
  MEMBUDGET_CORPUS=$(cd ../shared/data && pwd)
fi
if [ -n "${MEMBUDGET_CORPUS-}" ]; then export MEMBUDGET_CORPUS; fi
export UBSAN_OPTIONS=print_stacktrace=1
# What one clone compiled serves the next.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1

examples/install-dependencies.sh tests

jobs=$(nproc 2>/dev/null || echo 2)
launcher=""
if command -v ccache >/dev/null; then launcher=-DCMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log

quietly() { # quietly COMMAND...: shows what it printed only when it fails
  "$@" >"$log" 2>&1 </dev/null || { cat "$log"; echo "failed: $*" >&2; exit 1; }
}

total=0
skipped=0
count() { sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$scratch/results.xml" | head -n 1; }

run_suite() { # run_suite PRESET: configures, builds and tests one kind of build
  started=$(date +%s)
  quietly cmake --preset "$1" $launcher
  quietly cmake --build --preset "$1" -j "$jobs"
  quietly ctest --preset "$1" -j "$jobs" --output-junit "$scratch/results.xml"
  total=$((total + $(count tests)))
  skipped=$((skipped + $(count skipped)))
  echo "$1: $(grep 'tests passed' "$log") ($(($(date +%s) - started)) s)"
  sed -n '/The following tests did not run/,/^$/p' "$log"
}

# One instrumented build serves the fuzz targets and the sanitized tests: clang compiles it twice as
# fast as GCC would.
if [ $ci = yes ]; then run_suite fuzz; fi
run_suite dev
echo "$((total - skipped)) passed, 0 failed, $skipped skipped"
