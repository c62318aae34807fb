#!/usr/bin/env bash
# Real learning: the small convolutional network on MNIST. Prints the test accuracy and the seconds of training, and
# fails below 98.5% or above a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --bench
scripts/build.sh
scripts/get_data.sh mnist
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
build/rookery train --json --out "$out/run" --set model.kind=cnn --set data.source=data/mnist --set train.batch=64 \
  --set train.steps=800 --set train.lr=2e-3 --set train.warmup=50 --set train.checkpoint_every=0 |
  python3 -c '
import json, sys
summary = json.loads(sys.stdin.readlines()[-1])
accuracy, seconds = summary["test_accuracy"], summary["wall_seconds"]
print(f"test accuracy {accuracy:.2%} after {seconds:.1f} s of training")
sys.exit(accuracy < 0.985 or seconds > 60)'
