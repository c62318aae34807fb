#!/usr/bin/env bash
# The methods by which copies of a model agree, side by side on local swarms.
#   bench/methods.sh                      everything; takes about two hours
#   bench/methods.sh table shaped         some parts; --help names them
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh
exec python3 bench/methods.py "$@"
