#!/usr/bin/env bash
# Rookery's allreduce against PyTorch's DistributedDataParallel with Gloo: the same model, batch, peers and links. Every
# peer lives in a network namespace of its own; links are shaped for both alike, by tc. Needs root; cleans up after itself.
#   bench/vs_ddp.sh                    two and four peers, fast and slow links
#   bench/vs_ddp.sh --help             choose peers, links, models, repetitions
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --bench
scripts/build.sh
exec /usr/bin/python3 bench/vs_ddp.py "$@"
