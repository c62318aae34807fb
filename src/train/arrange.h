#pragma once

#include <optional>
#include <vector>

#include "config/description.h"
#include "plan/planner.h"
#include "plan/swarm.h"
#include "swarm/coordinator.h"
#include "train/blueprint.h"
#include "train/profile.h"

namespace rookery::train {

// The peers and their links as the planner sees them; where not all of these were surveyed, the others are as usual.
// `local`: they share the processors of this computer, whichever hosts they pretend to be.
plan::Swarm swarm_of(const std::vector<swarm::Means>& means, bool local);

// The same of the peers that [[peer]] describes, with links as in [network], if they were on this computer.
plan::Swarm described_swarm(const config::Settings& settings, const Profile& profile);

// The same of computers that are described in words. Throws InputError, one sentence, if it cannot be.
plan::Swarm described_swarm(const config::DescribedSwarm& description, const Profile& profile);

// Takes in what a peer's links from others turned out to be in training: those that were faster than measured. One that
// was slower may only have had less to do.
void learn(plan::Swarm& swarm, std::size_t peer, const std::vector<wire::SurveyedLink>& links);

// The other way round: peers and links as they were measured, in words; of a link, the slower direction.
config::DescribedSwarm description_of(const plan::Swarm& swarm);

// What is trained, for the planner.
plan::Job job_of(const Blueprint& blueprint, plan::ModelProfile layers);

// Throws InputError, one sentence, if a model with so many layers cannot be dealt out as the settings say, whoever the
// peers are.
void check_arrangement(const config::Settings& settings, std::size_t layers);

// All methods that settings allow, also where they name one: to say what others would give. Throws InputError if there
// is none.
std::vector<plan::MethodOptions> methods_to_compare(const Blueprint& blueprint);

// All ways to train with these peers that the settings leave open, the best first. Throws InputError, one sentence, if
// there is none.
std::vector<plan::Option> options_for(const Blueprint& blueprint, const plan::Job& job, const plan::Swarm& swarm);

// The same with settings other than the blueprint's.
std::vector<plan::Option> options_for(const Blueprint& blueprint, const config::Settings& settings,
                                      const plan::Job& job, const plan::Swarm& swarm);

// Gives every peer of a plan its cluster, stage and layers: the best of those options. The plan has what was decided as
// settings, and says how long a step is expected to take, if the peers have measured their layers. One that has
// measured those of another model counts as one that has not.
void arrange(const Blueprint& blueprint, plan::Swarm swarm, wire::Plan& plan);

// The same for a job whose layers are known. Returns what was chosen.
plan::Option arrange(const Blueprint& blueprint, const plan::Job& job, const plan::Swarm& swarm, wire::Plan& plan);

// The same by hand.
void write_plan(const config::Settings& settings, const plan::Option& chosen, const plan::ModelProfile& model,
                wire::Plan& plan);

}  // namespace rookery::train
