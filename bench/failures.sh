#!/usr/bin/env bash
# What failures cost: bench/failures.sh [--seeds N] [chaos] [newcomer] [overhead] [liars]      chaos takes half an hour a seed
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh
exec python3 bench/failures.py "$@"
