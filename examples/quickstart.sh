#!/bin/sh
# From a fresh clone to a first answer: installs what is missing, builds build/membudget, and
# estimates the memory of one training job. Run it again whenever you like: it does what is left.
set -eu
cd "$(dirname "$0")/.."

examples/install-dependencies.sh

log=$(mktemp)
trap 'rm -f "$log"' EXIT
launcher=""
if command -v ccache >/dev/null; then launcher=-DCMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
{ cmake --preset default $launcher && cmake --build --preset default; } >"$log" 2>&1 ||
  { cat "$log" >&2; exit 1; }

exec build/membudget estimate examples/quickstart.json
