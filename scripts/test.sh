#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests: the release build, then the modules without libtorch under the
# address, undefined-behaviour and thread sanitizers. scripts/test.sh --quick leaves the sanitizers out.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
scripts/build.sh --with-tests
ctest --preset release -j "$(nproc)"

[[ "${1:-}" == "--quick" ]] && exit 0
for sanitizer in asan tsan; do
  echo "test: $sanitizer"
  cmake --preset "$sanitizer" >/dev/null
  cmake --build --preset "$sanitizer"
  # The thread sanitizer cannot see the barriers of libgomp, so kernels run on one thread there.
  threads=2
  [[ "$sanitizer" == tsan ]] && threads=1
  OMP_NUM_THREADS=$threads ctest --preset "$sanitizer" -j "$(nproc)"
done
