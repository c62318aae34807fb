#!/usr/bin/env bash
# Fuzzes the parsers of fuzz/ with clang's libFuzzer: scripts/fuzz.sh [SECONDS each, 10 if left out] [NAME...]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10}
shift || true
out=build-fuzz
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || for target in fuzz/*_fuzz.cc; do targets+=("$(basename "$target" _fuzz.cc)"); done
for name in "${targets[@]}"; do
  mkdir -p "$out/found-$name"
  echo "fuzz: $name for $seconds s"
  "$out/fuzz_$name" -max_total_time="$seconds" -max_len=4200 -print_final_stats=1 -artifact_prefix="$out/$name-" \
    "$out/found-$name" "fuzz/corpus/$name" >"$out/$name.log" 2>&1 || { tail -40 "$out/$name.log" >&2; exit 1; }
  grep "number_of_executed_units" "$out/$name.log"
done
