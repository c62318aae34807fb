#!/usr/bin/env bash
# Does Rookery learn as much per step as a plain PyTorch script? The same GPT on Moby-Dick by bytes, the same number of
# steps, batch, learning rate and held-out windows, three seeds each. Prints the validation losses of both.
#   bench/same_loss.sh [STEPS]
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-600}
scripts/setup.sh --bench
scripts/build.sh
scripts/get_data.sh moby-dick
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

field() { /usr/bin/python3 -c "import json,sys; print(f\"{json.loads(sys.stdin.readlines()[-1])['eval_loss']:.4f}\")"; }
printf '%-6s %-10s %-10s\n' seed Rookery PyTorch
for seed in 1 2 3; do
  ours=$(build/rookery train --json --out "$out/run" --set data.source=data/moby-dick.txt --set train.steps="$steps" \
    --set train.warmup=50 --set train.seed=$seed --set train.eval_every=0 2>/dev/null | field)
  theirs=$(/usr/bin/python3 bench/pytorch_train.py --text data/moby-dick.txt --steps "$steps" --warmup 50 --seed $seed \
    --threads "$(nproc)" | field)
  printf '%-6s %-10s %-10s\n' "$seed" "$ours" "$theirs"
done
