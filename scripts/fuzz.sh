#!/usr/bin/env bash
# Fuzzes the parsers of fuzz/ with clang's libFuzzer: scripts/fuzz.sh [SECONDS each, 10 if left out]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10}
out=build/fuzz
mkdir -p "$out"
protoc --cpp_out="$out" -I. proto/handshake.proto
sources=(src/base/error.cc src/base/file.cc src/base/units.cc)
for source in src/wire/*.cc; do [[ "$source" == *_test.cc ]] || sources+=("$source"); done
flags=(-std=c++20 -g1 -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Isrc -isystem "$out" -DFMT_SHARED)
for target in fuzz/*_fuzz.cc; do
  name=$(basename "$target" _fuzz.cc)
  program=$out/$name
  if [[ ! -e "$program" || -n $(find "$target" src/wire src/base/error.h proto -newer "$program") ]]; then
    clang++ "${flags[@]}" "$target" "${sources[@]}" "$out/proto/handshake.pb.cc" -lfmt -lprotobuf -lcrypto -o "$program"
  fi
  mkdir -p "$out/found-$name"
  echo "fuzz: $name for $seconds s"
  "$program" -max_total_time="$seconds" -max_len=4200 -print_final_stats=1 -artifact_prefix="$out/$name-" \
    "$out/found-$name" "fuzz/corpus/$name" >"$out/$name.log" 2>&1 || { tail -40 "$out/$name.log" >&2; exit 1; }
  grep "number_of_executed_units" "$out/$name.log"
done
