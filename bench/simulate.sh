#!/usr/bin/env bash
# The simulator: bench/simulate.sh [--seeds N] [reality] [formation] [published] [speedup] [scale] [plans]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh
exec python3 bench/simulate.py "$@"
