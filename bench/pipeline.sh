#!/usr/bin/env bash
# Pipelines on local swarms: bubbles, memory, staleness, rings.
#   bench/pipeline.sh                     everything; takes about an hour
#   bench/pipeline.sh bubble memory       some parts; --help names them
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --bench
scripts/build.sh
scripts/get_data.sh mnist
exec python3 bench/pipeline.py "$@"
