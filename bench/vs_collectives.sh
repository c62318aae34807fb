#!/usr/bin/env bash
# Rookery's all-reduce against Gloo's and OpenMPI's, and against a raw TCP pair: processes of this machine, in turns.
#   bench/vs_collectives.sh            2 and 4 peers, 1 KiB to 256 MiB
#   bench/vs_collectives.sh --help     choose peers, sizes, repetitions
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --bench
scripts/build.sh
out=build/vs_collectives
mkdir -p "$out"
g++ -O2 -std=c++20 bench/raw_tcp.cc -o "$out/raw_tcp"
g++ -O2 -std=c++20 bench/gloo_allreduce.cc -o "$out/gloo_allreduce" -lgloo -lpthread
mpicxx -O2 -std=c++20 bench/mpi_allreduce.cc -o "$out/mpi_allreduce"
exec /usr/bin/python3 bench/vs_collectives.py "$@"
