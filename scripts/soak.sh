#!/usr/bin/env bash
# Peers are lost, frozen and come at every point of the protocols, in virtual time, with many more seeds than the tests
# have time for: scripts/soak.sh [SEEDS each, 2000 if left out] [FIRST SEED]
# A failure names its seed; ROOKERY_FIRST_SEED=SEED ROOKERY_SEEDS=1 and the program that is named shows it again.
set -euo pipefail
cd "$(dirname "$0")/.."
export ROOKERY_SEEDS=${1:-2000} ROOKERY_FIRST_SEED=${2:-0}

ninja -C build sync_test swarm_test simulate_test >/dev/null
soak() {
  echo "soak: build/$1 --gtest_filter='$2', $ROOKERY_SEEDS seeds from $ROOKERY_FIRST_SEED on"
  local start=$SECONDS
  "build/$1" --gtest_brief=1 --gtest_filter="$2"
  echo "soak: $((SECONDS - start)) s"
}
soak sync_test 'ChangingRoundsTest.WhateverHappensARoundHasOneOutcome'
soak swarm_test 'SwarmTest.TheOthersGoOnWithoutThoseWhoAreLost'
soak swarm_test 'StagesTest.WhateverHappensToOneClusterTheOtherGoesOn'
soak swarm_test 'ReturnTest.WhateverHappensEverybodyComesToAnEnd'
soak simulate_test 'SimulationTest.WhateverIsLostCopiesStayOneAndSamplesAreAccountedFor'
