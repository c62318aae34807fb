#!/usr/bin/env bash
# Peers are lost, frozen, cut off and come at every point of the protocols, in virtual time, with many more seeds than the
# tests have time for: scripts/soak.sh [SCHEDULES, 10000 if left out] [FIRST SEED]
# A failure names its seed; ROOKERY_FIRST_SEED=SEED ROOKERY_SEEDS=1 and the program that is named shows it again.
set -euo pipefail
cd "$(dirname "$0")/.."
schedules=${1:-10000}
export ROOKERY_FIRST_SEED=${2:-0}

ninja -C build sync_test swarm_test simulate_test >/dev/null

# soak PERCENT PROGRAM TEST: as many of the schedules; what takes longer gets fewer.
soak() {
  local seeds=$(((schedules * $1 + 99) / 100)) start=$SECONDS out
  out=$(ROOKERY_SEEDS=$seeds "build/$2" --gtest_brief=1 --gtest_filter="$3" 2>&1) || {
    echo "$out" | grep -v '\[info\]' | tail -40
    echo "soak: build/$2 --gtest_filter='$3' has failed"
    return 1
  }
  echo "soak: build/$2 --gtest_filter='$3': $seeds schedules from seed $ROOKERY_FIRST_SEED on, $((SECONDS - start)) s"
}

(
  soak 35 swarm_test 'SwarmTest.TheOthersGoOnWithoutThoseWhoAreLost'
  soak 30 swarm_test 'StagesTest.WhateverHappensToOneClusterTheOtherGoesOn'
  soak 4 simulate_test 'SimulationTest.WhateverIsLostCopiesStayOneAndSamplesAreAccountedFor'
) &
first=$!
(
  soak 19 swarm_test 'ReturnTest.WhateverHappensEverybodyComesToAnEnd'
  soak 3 sync_test 'ChangingRoundsTest.WhateverHappensARoundHasOneOutcome'
  soak 4 sync_test 'ChangingRoundsTest.WhoeverHearsOfItWhenARoundHasOneOutcome'
  soak 5 sync_test 'ChangingRoundsTest.WhateverHappensMixesGoOn'
) &
second=$!
failed=0
wait "$first" || failed=1
wait "$second" || failed=1
exit "$failed"
