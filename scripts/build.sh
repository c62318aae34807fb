#!/usr/bin/env bash
# Builds the release in build/: the program is build/rookery. With --with-tests also everything the tests need.
set -euo pipefail
cd "$(dirname "$0")/.."

target=(rookery)
[[ "${1:-}" == "--with-tests" ]] && target=(all)
cmake --preset release >/tmp/rookery-cmake.$$ 2>&1 || { cat /tmp/rookery-cmake.$$ >&2; rm -f /tmp/rookery-cmake.$$; exit 1; }
rm -f /tmp/rookery-cmake.$$
cmake --build --preset release --target "${target[@]}"
