#!/usr/bin/env bash
# Installs the packages of package-lock.json in node_modules, unless they are there.
set -euo pipefail
cd "$(dirname "$0")"

cmp -s package-lock.json node_modules/.installed && exit
npm ci --ignore-scripts
cp package-lock.json node_modules/.installed
