#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/formation.h"
#include "plan/runtime.h"

namespace rookery::plan {

// What a user leaves to the planner, and what not.
struct Wishes {
  std::optional<std::vector<std::size_t>> sizes{};  // of clusters, which then take the peers in their order,
  bool may_form = false;                            // unless as many others are clearly better
  std::optional<Cut> cut{};                         // of clusters with as many stages
  std::vector<ScheduleOptions> schedules{{}};       // to choose from, where clusters have stages
  std::vector<MethodOptions> methods{{}};           // to choose from, where there are several clusters
  // Other settings of a candidate's method, of which the best is taken; may be left out. Called by several threads at
  // once.
  std::function<std::vector<MethodOptions>(const Candidate&)> variants{};
  // What has to be kept of each parameter. Called by several threads at once.
  std::function<Keeping(const MethodOptions&, std::size_t clusters, Schedule)> keeping{};
};

// One way to do it, and how it would go.
struct Option {
  Candidate candidate;
  Prediction prediction;
  double worth = 1;  // of a sample, compared with one of a synchronous step of one cluster

  double value() const { return prediction.samples_per_second * worth; }
};

// What a sample is worth with a schedule and a method, by what large batches, staleness and long intervals cost; 1 in
// one cluster with a synchronous schedule, and everywhere if samples are the goal.
// docs/runtime-model.md says where the figures come from.
double worth(const Candidate& candidate, Goal goal);

// By how much more it counts, because what is plain (all-reduce, with a synchronous schedule) is preferred to what is
// not clearly better.
double preference(const Candidate& candidate);

// Every schedule and method with the best clusters for it, and every number of clusters with what is best for it, up to
// a dozen; the best of all first. A method that talks less, or a stale gradient, has to be better by more than what
// predictions are wrong by.
//
// Throws InputError, one sentence, if there is no way that the model fits: what is missing, and which peers can hold
// nothing of it, so that it may work without them.
std::vector<Option> decide(const Job& job, const Swarm& swarm, const Wishes& wishes);

// Why an option is not the best one.
std::string why_not(const Option& option, const Option& best);

}  // namespace rookery::plan
