#pragma once

#include <vector>

#include "plan/swarm.h"
#include "swarm/coordinator.h"
#include "train/blueprint.h"

namespace rookery::train {

// When peers were lost, or more have come than there are places for, another plan may be better: with other clusters,
// another cut of a pipeline that has lost a stage, or without that pipeline. Everybody has to stop for it, save, link
// up and load, so it has to be worth that.

// Whether a run can be planned anew at all: its clusters were left to the plan, and what is saved suits any of them.
// `decided`: its settings, with what the plan has decided.
bool can_move(const config::Settings& settings, const config::Settings& decided);

// What is known of a run that might be planned anew.
struct Prospect {
  const Blueprint& blueprint;       // with the settings as they were given,
  const config::Settings& decided;  // and with what the plan has decided
  const plan::Swarm& measured;      // peers and links of the plan, when it was made
  bool local = false;               // as in swarm_of()
  const wire::Plan& plan;
  const std::vector<swarm::Means>& present;
  double seconds_left = 0;  // that the rest would take as it goes now
};

// With v, the progress a second (plan::Option::value) of the clusters that are whole, v', that of the best plan for all
// who are present, R, the seconds left, and C, what moving costs:
//
//     moves if  R·(1 − v/v') > 2·C  and  v' > 1.15·v
//
// The factors are the hysteresis: predictions are off by some percent, and whoever was lost may come again. Links of
// which nothing is known are taken for the median of the others. False if those who are present cannot hold the model.
bool is_worth_moving(const Prospect& prospect);

// Seconds in which nobody trains: all end, save, join again, survey their links and load.
double cost_of_moving(const plan::Swarm& swarm, double parameters);

}  // namespace rookery::train
