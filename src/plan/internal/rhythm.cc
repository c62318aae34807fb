#include "plan/internal/rhythm.h"

#include <algorithm>

namespace rookery::plan::internal {
namespace {

// What a report of a step takes of its peer, and of the coordinator, if that is on the same computer.
constexpr double kReportHops = 10;

}  // namespace

Rhythm::Rhythm(const Job& job, const Swarm& swarm, const Candidate& candidate, const Processors& processors,
               std::size_t cluster)
    : job_(job),
      swarm_(swarm),
      candidate_(candidate),
      cluster_(cluster),
      synchronous_(is_synchronous(candidate.schedule.schedule)),
      first_begin_(peers().size()),
      last_begin_(peers().size()),
      last_end_(peers().size()),
      bytes_sent_(peers().size()) {
  find_times(processors);
  rehearse(synchronous_ ? 0 : add_ties());
  count_bytes();
  if (synchronous_) after_backward_ = find_after_backward();
}

// With versions that are stashed the parameters are copied before.
double Rhythm::update_of(std::size_t stage, const Processors& processors) const {
  double parameters = 0;
  const Layers layers = partition().cut[stage];
  for (std::size_t l = layers.begin; l < layers.end; ++l) parameters += static_cast<double>(job_.model[l].parameters);
  const bool copies = !synchronous_ && job_.keeping.versions == Versions::kStash && stage + 1 < peers().size();
  const double passes = copies ? 1 + kPassShare : 1;
  const std::size_t peer = peers()[stage];
  return swarm_.peers[peer].update * parameters * processors.slowdown_at_full_speed(peer) * passes;
}

void Rhythm::find_times(const Processors& processors) {
  const auto updates = static_cast<double>(candidate_.schedule.updates());
  const auto micro_batches = static_cast<double>(candidate_.schedule.micro_batches);
  const std::vector<Worker> all = workers();
  for (std::size_t s = 0; s < all.size(); ++s) {
    ActionTimes& own = times_.emplace_back(action_times(job_.model, all[s], partition().cut[s], job_.keeping.versions));
    own.forward *= processors.slowdown(peers()[s]);
    own.backward *= processors.slowdown(peers()[s]);
    updates_.push_back(update_of(s, processors));
    own.update = synchronous_ ? 0 : updates_[s];
    longest_update_ = std::max(longest_update_, updates_[s]);
    busy_ += micro_batches * (own.forward + own.backward) + updates * updates_[s];
  }
}

// Parameters that two stages of a cluster use: the first stage owns them, as models bring them with their first layer.
double Rhythm::tied_bytes(std::size_t stage) const {
  const Layers layers = partition().cut[stage];
  double replicas = 0;
  for (std::size_t l = layers.begin; stage > 0 && l < layers.end; ++l) {
    replicas = std::max(replicas, static_cast<double>(job_.model[l].replicas));  // layers share them
  }
  return replicas * sizeof(float);
}

Rhythm::TiedTransfer Rhythm::tied_transfer(std::size_t from, std::size_t to, double bytes) const {
  const Link link = swarm_.link(peers()[from], peers()[to]);
  const std::size_t next = to > from ? from + 1 : from - 1;
  const double uplink = swarm_.peers[peers()[from]].uplink;
  const bool shares = next == to || uplink < link.bandwidth + swarm_.link(peers()[from], peers()[next]).bandwidth;
  return {.takes = bytes / std::min(uplink, link.bandwidth), .latency = link.latency, .shares = shares};
}

// In an asynchronous pipeline what is tied goes to and fro with every update. Where it shares a link, or a card, with
// borders, they take turns, so that a border waits for as much as it is itself. Returns what the busiest link takes for
// a micro-batch: gradients all have to go, but of values only the newest do.
double Rhythm::add_ties() {
  double busiest = 0;
  const auto add = [&](std::size_t from, std::size_t to, double bytes, double& border) {
    const TiedTransfer tied = tied_transfer(from, to, bytes);
    if (to == 0) busiest = std::max(busiest, tied.takes + (tied.shares ? border : 0));
    if (tied.shares) border += std::min(border, tied.takes);
  };
  for (std::size_t s = 1; s < times_.size(); ++s) {
    const double bytes = tied_bytes(s) / static_cast<double>(candidate_.schedule.group());
    if (bytes == 0) continue;
    add(0, s, bytes, times_[0].send_forward);
    add(s, 0, bytes, times_[s].send_backward);
  }
  return busiest;
}

void Rhythm::rehearse(double busiest_link) {
  const std::size_t stages = peers().size();
  const std::uint64_t micro_batches = candidate_.schedule.micro_batches;
  std::vector<ScheduleOptions> options(stages, candidate_.schedule);
  for (std::size_t s = 0; s < stages; ++s) options[s].in_flight = partition().in_flight[s];
  const std::uint64_t steps = synchronous_ ? 1 : 4 + 16 * stages / micro_batches;
  std::vector<double> ends(steps);
  for (const PlannedAction& action : timeline(options, times_, steps)) {
    const std::uint64_t step = action.micro_batch / micro_batches;
    ends[step] = std::max(ends[step], action.end);
    if (action.action == Action::kForward && action.micro_batch == 0) first_begin_[action.stage] = action.begin;
    if (action.action != Action::kBackward || step + 1 < steps) continue;
    last_begin_[action.stage] = action.begin;
    last_end_[action.stage] = action.end;
  }
  const std::uint64_t half = steps / 2;
  step_ = synchronous_ ? ends[0] : (ends[steps - 1] - ends[half - 1]) / static_cast<double>(steps - half);
  step_ = std::max(step_, busiest_link * static_cast<double>(micro_batches));
  if (!synchronous_) fill_ = std::max(0.0, ends[steps - 1] - static_cast<double>(steps) * step_);
  double hop = 0;
  for (const std::size_t peer : peers()) hop = std::max(hop, swarm_.peers[peer].hop);
  step_ += kReportHops * hop;
}

void Rhythm::count_bytes() {
  for (std::size_t s = 0; s < peers().size(); ++s) {
    const Layers layers = partition().cut[s];
    double bytes = 0;
    if (layers.end < job_.model.size()) bytes += job_.model[layers.end - 1].sent_forward();
    if (layers.begin > 0) bytes += job_.model[layers.begin - 1].sent_backward();
    const double tied = tied_bytes(s) * static_cast<double>(candidate_.schedule.updates());
    bytes_sent_[s] += bytes * static_cast<double>(candidate_.schedule.micro_batches) + tied;
    bytes_sent_[0] += tied;
  }
}

double Rhythm::longest_latency() const {
  double longest = 0;
  for (std::size_t i = 0; i < peers().size(); ++i) {
    longest = std::max(longest, swarm_.link(peers()[i], peers()[(i + 1) % peers().size()]).latency);
  }
  return longest;
}

double Rhythm::find_after_backward() const {
  const std::size_t stages = peers().size();
  const double hop = job_.clips && stages > 1 ? longest_latency() : 0;
  // Hops of the ring that sums the norm, from when the first stage has come, the last of all, to when a stage has it:
  // what the first one has begun with goes around once, and then on to it.
  const auto norm_hops = [&](std::size_t s) { return static_cast<double>(s + 1 < stages ? stages + s : s); };
  const auto ready = [&](std::size_t s) { return norm_hops(s) * hop + updates_[s]; };
  double gathered = 0;        // when the first stage has all gradients of what is tied
  double longest = ready(0);  // from then on
  for (std::size_t s = 1; s < stages; ++s) {
    double other = ready(s);
    if (const double bytes = tied_bytes(s); bytes > 0) {
      const TiedTransfer there = tied_transfer(s, 0, bytes), back = tied_transfer(0, s, bytes);
      const double border = there.shares ? times_[s].send_backward : 0;
      gathered = std::max(gathered, last_end_[s] + border + there.takes + there.latency - last_end_[0]);
      other = std::max(other, ready(0) + back.takes + back.latency);
      // The next step's first border waits for the values.
      if (back.shares) longest = std::max(longest, ready(0) + back.takes - times_[0].forward);
    }
    longest = std::max(longest, other - first_begin_[s]);
  }
  return gathered + longest;
}

double Rhythm::ready_at(const Segment& segment, std::size_t from) const {
  const std::size_t stage = segment.stages[cluster_];
  const Layers own = partition().cut[stage];
  Worker worker = workers()[stage];
  worker.micro_batch_time.reset();  // what counts are shares
  std::size_t layer = segment.layers.begin;
  for (std::size_t values = 0; layer < segment.layers.end; ++layer) {
    values += job_.model[layer].parameters;
    if (values > from) break;
  }
  const auto backward = [&](Layers layers) {
    return action_times(job_.model, worker, layers, job_.keeping.versions).backward;
  };
  const double all = backward(own);
  const double to_come = all > 0 && layer > own.begin ? backward({own.begin, layer}) / all : 0;
  return last_end_[stage] - to_come * (last_end_[stage] - last_begin_[stage]);
}

}  // namespace rookery::plan::internal
