#!/usr/bin/env bash
# What the dashboard costs: bench/dashboard.sh [training] [server] [memory] [browser]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --bench
scripts/build.sh
cmake --build --preset release --target dashboard_load
tests/browser/install.sh
exec python3 bench/dashboard.py "$@"
