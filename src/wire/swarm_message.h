#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wire/contact.h"

namespace rookery::wire {

// What the coordinator and the peers of a swarm say to each other. docs/wire-format.md has the order.

// A peer, when it has been admitted.
struct Introduction {
  Contact contact{};
  std::uint64_t memory = 0;  // bytes it may use; 0: as many as it has
  std::string host{};        // equal on peers of one computer; may be empty
  bool stands_in = false;    // its process is a peer already, and was asked to join once more

  bool operator==(const Introduction&) const = default;
};

// A file that the other end can be asked for, by its digest.
struct FileFacts {
  std::string name{};  // relative, with slashes
  std::uint64_t size = 0;
  std::string digest{};  // SHA-256, in hexadecimal

  bool operator==(const FileFacts&) const = default;
};

// The coordinator: what is to be trained.
struct Assignment {
  std::string settings{};               // as TOML
  std::vector<FileFacts> data{};        // none: the data is generated
  std::vector<FileFacts> checkpoint{};  // none: from the beginning

  bool operator==(const Assignment&) const = default;
};

// What one layer takes a peer, in seconds.
struct LayerTimes {
  double forward = 0, backward = 0;

  bool operator==(const LayerTimes&) const = default;
};

// A peer has opened the data and built the model.
struct Ready {
  std::string data{}, model{};  // fingerprints
  std::uint64_t parameters = 0;
  std::string about{};               // its computer, for people
  std::uint64_t resident = 0;        // bytes of memory that it takes already, before it holds any layer
  std::uint64_t available = 0;       // that are free on its computer; 0: not known
  double speed = 1;                  // that it keeps, as a share of what its computer could do
  double step_time = 0;              // seconds that it pretends to take for a step, over its speed; 0: it does not
  double jitter = 0;                 // standard deviation of a step's time, as a share of it
  double update = 0;                 // seconds that an update takes for a parameter
  double byte_cost = 0;              // processor seconds for a byte that it sends or receives
  double hop = 0;                    // seconds that something small takes from one of its threads to another
  std::uint32_t cores = 1;           // of its computer
  std::vector<LayerTimes> layers{};  // of a micro-batch, at full speed; empty: not measured

  bool operator==(const Ready&) const = default;
};

// The coordinator: who is there; find out what the links between you can carry.
struct Survey {
  std::uint32_t number = 0;      // each has the next
  std::vector<Contact> peers{};  // in the order of their ranks; no two with one name or key

  bool operator==(const Survey&) const = default;
};

// The way from another peer to this one.
struct SurveyedLink {
  std::uint32_t peer = 0;    // its rank
  double bandwidth = 0;      // bytes/s; 0: not measured
  double latency = 0;        // seconds, one way
  double while_sharing = 0;  // bytes/s while it was sending to others, too; 0: not measured

  bool operator==(const SurveyedLink&) const = default;
};

// A peer, when it has; or why it could not.
struct Surveyed {
  std::uint32_t number = 0;
  std::vector<SurveyedLink> links{};
  double crowding = 0;    // how much longer computing takes while all others do, too, than alone; 0: not tried
  std::string culprit{};  // name of the peer to blame
  std::string text{};     // empty: all went well

  bool operator==(const Surveyed&) const = default;
};

struct PlannedPeer {
  Contact contact{};
  std::uint32_t cluster = 0;
  double weight = 1;  // samples in a step; equal for all of a cluster
  std::string host{};
  std::uint32_t stage = 0;           // of its cluster
  std::uint32_t begin = 0, end = 1;  // layers that it holds: [begin, end)
  std::uint32_t in_flight = 1;       // micro-batches that may be on their way from it
  std::uint64_t memory = 0;          // bytes that its stage and links are to take; 0: not known
  std::uint32_t came = 0;            // generation in which whoever has this place came; 0: the first,
  std::uint32_t since = 0;           // and in which somebody of its cluster last came or was lost
  std::uint64_t from = 0;            // takes part in rounds after so many steps
  bool here = true;                  // else nobody does its work at the moment
  bool restores = false;             // somebody of its cluster is new: gets what others have after `from` steps, or now
  bool empty = false;                // nobody is there, not even somebody who waits for others of its cluster
  bool rewinds = false;              // its cluster goes back to what it was after `from` steps, by copies of its own

  bool operator==(const PlannedPeer&) const = default;
};

// The coordinator: who does what. Another one follows with the next generation when somebody is lost, or has come.
struct Plan {
  std::uint32_t generation = 0;
  std::vector<PlannedPeer> peers{};     // in the order of their ranks; no two with one name or key
  std::uint64_t border_bytes = 0;       // that go from stage to stage for a micro-batch, at most
  std::vector<std::string> settings{};  // what the plan decides: "section.key=value"
  double step_seconds = 0;              // that a step is expected to take; 0: not known
  std::uint64_t first_step = 0;         // how many steps were done before the run, if it was resumed,
  std::uint64_t first_sample = 0;       // and how many samples were used

  bool operator==(const Plan&) const = default;
};

// A peer whose cluster has lost somebody has stopped, and waits for who comes.
struct Paused {
  std::uint32_t generation = 0;  // of the plan in which it is so

  bool operator==(const Paused&) const = default;
};

// A peer has got from others what belongs to its place: it came later, or somebody of its cluster did.
struct Restored {
  std::uint32_t generation = 0;  // in which it was to

  bool operator==(const Restored&) const = default;
};

// A peer has its links.
struct Linked {
  std::uint32_t generation = 0;

  bool operator==(const Linked&) const = default;
};

// The coordinator, when all have.
struct Begin {
  std::uint32_t generation = 0;

  bool operator==(const Begin&) const = default;
};

// A peer, after each step.
struct StepReport {
  std::uint64_t step = 0;  // counts from 1
  bool pulled = false;     // no gradient step: there is no loss, and no sample was used
  double loss = 0;         // of this copy's samples; on the last stage, as are samples and tokens
  double lr = 0;
  double grad_norm = 0;  // of its own layers, before clipping
  std::uint64_t samples = 0;
  std::uint64_t tokens = 0;
  double compute_seconds = 0;
  double wait_seconds = 0;       // for others
  std::uint64_t bytes_sent = 0;  // since the beginning
  std::uint64_t bytes_received = 0;
  std::optional<double> drift{};    // from what was agreed last
  std::uint64_t staleness = 0;      // updates between a forward and the use of its gradient, at most
  std::uint64_t rounds_failed = 0;  // so far, and were left out

  bool operator==(const StepReport&) const = default;
};

// A peer, after an evaluation of the average of all copies, or of its own.
struct Evaluated {
  std::uint64_t step = 0;
  std::string split{};  // "eval" or "test"
  double loss = 0;
  double accuracy = 0;
  double consensus_distance = 0;
  bool own = false;

  bool operator==(const Evaluated&) const = default;
};

// A peer has a checkpoint that can be fetched from it.
struct Saved {
  std::uint64_t step = 0;
  std::vector<FileFacts> files{};

  bool operator==(const Saved&) const = default;
};

// The coordinator, when it has fetched it.
struct Kept {
  std::uint64_t step = 0;

  bool operator==(const Kept&) const = default;
};

// What a peer's copy of a segment was in the end.
struct SegmentDigest {
  std::uint32_t segment = 0;
  std::string digest{};  // SHA-256, in hexadecimal

  bool operator==(const SegmentDigest&) const = default;
};

// A peer has done its last step.
struct Ended {
  std::uint64_t peak_memory = 0;  // bytes
  double busy_share = 0;
  std::uint64_t rounds = 0;
  std::uint64_t rounds_failed = 0;        // and were left out
  std::optional<double> entropy_floor{};  // of the data that evaluations use
  std::uint64_t bytes_sent = 0;           // since the beginning, with what followed the last step
  std::uint64_t bytes_received = 0;
  std::uint64_t payload_sent = 0;                  // of the bytes sent, what is not headers
  double waited_forward = 0, waited_backward = 0;  // seconds: for something to compute forward, for gradients
  std::vector<std::uint64_t> staleness{};          // how many micro-batches had 0, 1, … updates in between
  std::uint64_t versions = 0;                      // of the weights in memory, at most
  std::vector<SegmentDigest> segments{};           // that it holds, if the copies were made one
  std::vector<SurveyedLink> links{};               // from others, as they turned out to be while it trained

  bool operator==(const Ended&) const = default;
};

// A peer cannot go on.
struct Failed {
  std::string culprit{};  // name of the peer to blame; empty: this one
  std::string text{};

  bool operator==(const Failed&) const = default;
};

// A peer: another one brings what cannot be right to their rounds.
struct Suspected {
  std::string culprit{};  // its name
  std::string text{};

  bool operator==(const Suspected&) const = default;
};

// A peer: its link to another one, who is there by the plan, has ended.
struct Missed {
  std::string who{};       // its name,
  std::uint32_t came = 0;  // and the generation in which it came
  std::string text{};

  bool operator==(const Missed&) const = default;
};

// A peer that trains, instead of an introduction: its link to the coordinator had ended, or another coordinator has
// taken up the run.
struct Returned {
  std::uint32_t generation = 0;  // of the plan that it goes by
  Introduction introduction{};   // what another coordinator does not know of it
  Ready ready{};

  bool operator==(const Returned&) const = default;
};

// The coordinator, to one who has returned: how far it knows its steps. What came after that is said again.
struct Known {
  std::uint64_t step = 0;

  bool operator==(const Known&) const = default;
};

// A peer: it has a copy of the stage before it, as that was after this step.
struct Held {
  std::uint64_t step = 0;

  bool operator==(const Held&) const = default;
};

// The coordinator, when all of the cluster have: it can go back to this step, whoever is lost.
struct Covered {
  std::uint64_t step = 0;

  bool operator==(const Covered&) const = default;
};

// The coordinator: a place is free, and nobody comes; join once more, as another peer.
struct StandIn {
  bool operator==(const StandIn&) const = default;
};

// The coordinator: begin no further step, and say in which one you are.
struct Stop {
  std::string reason{};
  bool moves = false;  // there will be another plan: whoever has ended joins again

  bool operator==(const Stop&) const = default;
};

// A peer: the last step that it has begun.
struct Halted {
  std::uint64_t step = 0;

  bool operator==(const Halted&) const = default;
};

// The coordinator, when it knows that of all: the last step of the run, with a checkpoint after it.
struct EndAt {
  std::uint64_t step = 0;

  bool operator==(const EndAt&) const = default;
};

// The coordinator: begin no further step for now, and say in which one you are.
struct Hold {
  std::uint32_t number = 0;  // each has the next

  bool operator==(const Hold&) const = default;
};

// A peer: the last step that it has begun, and it begins no other.
struct Holding {
  std::uint64_t step = 0;
  std::uint32_t number = 0;  // of what it answers

  bool operator==(const Holding&) const = default;
};

// The coordinator, when it knows that of all, or does not need to: go on.
struct Release {
  std::optional<std::uint64_t> save_after{};  // with a checkpoint after this step, which nobody has gone beyond
  bool holds_again = false;                   // then, until it is released again

  bool operator==(const Release&) const = default;
};

// What a peer was doing for a while.
struct DoneSpan {
  std::uint32_t kind = 0;         // of what a timeline shows
  double begin = 0, seconds = 0;  // before this was said, and for how long

  bool operator==(const DoneSpan&) const = default;
};

struct LinkTraffic {
  std::uint32_t peer = 0;  // rank of whom it sends to
  std::uint64_t sent = 0;  // bytes so far
  // Of the way from there, as a peer sees it without measuring: bytes/s at best of late, and seconds. 0: not known.
  double bandwidth = 0, latency = 0;

  bool operator==(const LinkTraffic&) const = default;
};

// A peer, about once a second, for those who look on. Nothing depends on it.
struct Activity {
  std::uint64_t resident = 0;  // bytes of memory
  std::vector<DoneSpan> spans{};
  std::vector<LinkTraffic> traffic{};
  std::vector<std::string> log{};  // lines that are new

  bool operator==(const Activity&) const = default;
};

// Somebody with the ticket who only looks on, instead of an introduction; as often as it likes.
struct Look {
  bool measured = false;  // its peers and links as they were measured, instead of what there is to see

  bool operator==(const Look&) const = default;
};

// The coordinator, to whoever looks on.
struct Shown {
  std::string text{};  // what there is to see, as JSON; or peers and links, as a peers.toml

  bool operator==(const Shown&) const = default;
};

using SwarmMessage =
    std::variant<Introduction, Assignment, Ready, Plan, Linked, Begin, StepReport, Evaluated, Ended, Failed, Stop,
                 Saved, Kept, Halted, EndAt, Survey, Surveyed, Restored, Paused, Suspected, Missed, Returned, Known,
                 Held, Covered, StandIn, Hold, Holding, Release, Activity, Look, Shown>;

inline constexpr std::size_t kMaxPlannedPeers = 4096;
inline constexpr std::uint32_t kMaxLayers = 1 << 16;
inline constexpr std::uint32_t kMaxInFlight = 1 << 12;
inline constexpr std::uint64_t kMaxStepSamples = std::uint64_t{1} << 40;  // or tokens
inline constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 56;        // of all of a run
inline constexpr std::size_t kMaxSettingsBytes = 256 * 1024;
inline constexpr std::size_t kMaxFiles = 4096;
inline constexpr std::size_t kMaxPlanSettings = 64;
inline constexpr std::size_t kMaxDoneSpans = 512;
inline constexpr std::size_t kMaxLogLines = 20;
inline constexpr std::size_t kMaxLogLineBytes = 300;
inline constexpr std::size_t kMaxShownBytes = 4 * 1024 * 1024;

// Whether a name may be given to a file that others send: relative, and nothing that leads elsewhere, is hidden, or
// cannot be shown.
bool is_file_name(std::string_view name);

std::vector<std::byte> encode(const SwarmMessage& message);

// Throws WireError if the bytes are no message, a field is missing or beyond its limits, or a number is not finite or
// negative.
SwarmMessage decode_swarm_message(std::span<const std::byte> bytes);

}  // namespace rookery::wire
