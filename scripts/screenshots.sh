#!/usr/bin/env bash
# Takes the pictures of the dashboard in docs/pictures from a real run with build/rookery, in about two minutes. Needs
# what scripts/setup.sh --tests installs.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! -x build/rookery ]]; then
  echo "screenshots: there is no build/rookery; scripts/build.sh makes it" >&2
  exit 1
fi
tests/browser/install.sh
node tests/browser/screenshots.mjs examples/pipeline.toml docs/pictures
