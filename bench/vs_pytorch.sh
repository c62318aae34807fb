#!/usr/bin/env bash
# Rookery against Debian's PyTorch: the same models, batches and threads, trained in turns on this machine.
#   bench/vs_pytorch.sh                all models, one thread and two
#   bench/vs_pytorch.sh --help         choose models, threads, repetitions
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --bench
scripts/build.sh
exec /usr/bin/python3 bench/vs_pytorch.py "$@"
