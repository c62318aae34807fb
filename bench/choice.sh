#!/usr/bin/env bash
# The planner's choice against every fixed one, by virtual time to a loss; takes half an hour.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --bench
scripts/build.sh
exec python3 bench/choice.py "$@"
