#!/usr/bin/env bash
# The tests of the dashboard and of reports in a real browser: tests/browser/run.sh [BUILD_DIRECTORY]
# Screenshots are left in $ROOKERY_SCREENSHOTS, or in the folder screenshots of the build.
set -euo pipefail
ROOKERY_BUILD=$(realpath "${1:-$(dirname "$0")/../../build}")
export ROOKERY_BUILD
cd "$(dirname "$0")"

./install.sh
failed=0
for test in dashboard token report; do  # one after the other: each keeps the computer busy
  node --test "${test}_test.mjs" || failed=1
done
exit "$failed"
