#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests: the release build, then the modules without libtorch under the
# address, undefined-behaviour and thread sanitizers, then a few seconds of fuzzing. scripts/test.sh --quick leaves out
# all but the release build.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh --tests
scripts/build.sh --with-tests
ctest --preset release -j "$(nproc)"

[[ "${1:-}" == "--quick" ]] && exit 0
for sanitizer in asan tsan; do
  echo "test: $sanitizer"
  cmake --preset "$sanitizer" >/dev/null
  cmake --build --preset "$sanitizer"
  OMP_NUM_THREADS=2 ctest --preset "$sanitizer" -j "$(nproc)"
done
scripts/fuzz.sh 5
