#!/usr/bin/env bash
# From nothing to a trained model: installs what is missing, builds, trains a small GPT on tales that Rookery makes up
# itself, with five peers on this computer of which none holds the whole model, and lets it tell one. Takes a few
# minutes, most of it for the build; downloads nothing but packages, Debian's and npm's.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
echo "demo: building (the first time takes several minutes)"
scripts/build.sh
echo
echo "demo: training a GPT on made-up tales, with two clusters of peers on this computer, each sharing a copy of it"
build/rookery train examples/pipeline.toml --out runs/demo
echo
echo "demo: a tale, as the model tells it:"
echo
build/rookery generate runs/demo --prompt "Once" --tokens 560 --temperature 0.6
cat <<'EOF'

demo: done. The run is in runs/demo; look into it with: build/rookery inspect runs/demo

The same on five computers: on one of them, which the others can reach,

  build/rookery coordinate examples/pipeline.toml --listen 0.0.0.0:4700

It prints a command with a ticket. Run that on all five (the first may take part itself):

  build/rookery join TICKET
EOF
