#!/usr/bin/env bash
# The planner's choice against every fixed one, by virtual time to a loss; takes an hour. `near` compares with
# those that differ in one thing, in a quarter of an hour; `real` does the same with processes, in half an hour; `intervals`
# and `topologies` show what long intervals and slow mixing cost, in five minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --bench
scripts/build.sh
exec python3 bench/choice.py "${@:-choice}"
