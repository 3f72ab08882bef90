#!/bin/sh
# A large memory snapshot, read, replayed and asked for its peak, beside CPython's C unpickler alone on
# the same file. Prints MB per second of processor time, the ratio and the memory.
#
#     tests/benchmarks/trace.sh [BYTES]
#
# BENCH names the folder of the benchmark programs; build-bench/tests/benchmarks is the default. Needs
# python3 for the comparison, and room for the file in TMPDIR.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
bench=${BENCH:-$root/build-bench/tests/benchmarks}
file=$(mktemp)
trap 'rm -f "$file"' EXIT

"$bench/make_snapshot" "${1:-1000000000}" > "$file"
"$bench/bench_trace" "$file"
python3 - "$file" <<'END'
import os, pickle, sys, time
begin = time.process_time()
with open(sys.argv[1], "rb") as file:
    pickle.load(file)
seconds = time.process_time() - begin
print(f"CPython's unpickler alone: {seconds:.2f} s ({os.path.getsize(sys.argv[1]) / seconds / 1e6:.0f} MB/s)")
END
