#!/usr/bin/env bash
# Predicted against measured step times on local swarms, over all methods and schedules.
#   bench/prediction.sh [--seeds N]      takes about ten minutes a seed
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --bench
scripts/build.sh
exec python3 bench/prediction.py "$@"
