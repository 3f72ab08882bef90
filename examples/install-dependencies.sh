#!/bin/sh
# Installs what building membudget needs and this machine lacks, from Debian's or Ubuntu's packages.
# Needs root or sudo only when something is missing; on other systems it says what to install.
#
#     examples/install-dependencies.sh           the library and the program
#     examples/install-dependencies.sh tests     and what their tests use
set -eu

has_compiler() { printf '#include <concepts>\n' | c++ -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; }
has_header() {
  printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | c++ -x c++ -E - >/dev/null 2>&1
}
has_program() { command -v "$1" >/dev/null; }
has_catch2() { has_header catch2/catch_all.hpp || has_header catch2/catch.hpp; }
has_cmake() {
  has_program cmake &&
    cmake --version | awk 'NR == 1 { split($3, v, "."); exit !(v[1] > 3 || (v[1] == 3 && v[2] >= 25)) }'
}
can_fuzz() {
  printf 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2>/dev/null
}

missing=""
need() { # need PACKAGE CHECK...: notes the package when the check fails
  package=$1
  shift
  "$@" || missing="$missing $package"
}
list_missing() {
  missing=""
  need g++ has_compiler
  need cmake has_cmake
  need ninja-build has_program ninja
  need libfmt-dev has_header fmt/format.h
  need nlohmann-json3-dev has_header nlohmann/json.hpp
  need libcli11-dev has_header CLI/CLI.hpp
  need zlib1g-dev has_header zlib.h
  [ "${1-}" = tests ] || return 0
  need catch2 has_catch2
  need jq has_program jq
  need clang has_program clang++
  if has_program clang++; then
    need "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev" can_fuzz
  fi
}

list_missing "$@"
if [ -z "$missing" ]; then exit 0; fi
if ! has_program apt-get; then
  echo "error: install the equivalents of these Debian packages first:$missing" >&2
  exit 1
fi
as_root=""
if [ "$(id -u)" != 0 ]; then as_root=sudo; fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT

install() {
  echo "installing:$missing"
  # $missing is a list of words.
  # shellcheck disable=SC2086
  { $as_root apt-get update &&
      $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
  } >"$log" 2>&1 </dev/null || { cat "$log" >&2; exit 1; }
  list_missing "$@"
}

install "$@"
# What only shows once a compiler is there.
if [ -n "$missing" ]; then install "$@"; fi
if [ -n "$missing" ]; then
  echo "error: still missing:$missing" >&2
  exit 1
fi
