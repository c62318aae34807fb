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

// A peer has opened the data and built the model.
struct Ready {
  std::string data{}, model{};  // fingerprints
  std::uint64_t parameters = 0;
  std::string about{};  // for people

  bool operator==(const Ready&) const = default;
};

struct PlannedPeer {
  Contact contact{};
  std::uint32_t cluster = 0;
  double weight = 1;  // samples in a step; equal for all of a cluster
  std::string host{};
  std::uint32_t stage = 0;           // of its cluster
  std::uint32_t begin = 0, end = 1;  // layers that it holds: [begin, end)
  std::uint32_t in_flight = 1;       // micro-batches that may be on their way from it

  bool operator==(const PlannedPeer&) const = default;
};

// The coordinator: who does what.
struct Plan {
  std::uint32_t generation = 0;
  std::vector<PlannedPeer> peers{};  // in the order of their ranks; no two with one name or key
  std::uint64_t border_bytes = 0;    // that go from stage to stage for a micro-batch, at most

  bool operator==(const Plan&) const = default;
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
  double loss = 0;         // of this copy's samples
  double lr = 0;
  double grad_norm = 0;  // before clipping
  std::uint64_t samples = 0;
  std::uint64_t tokens = 0;
  double compute_seconds = 0;
  double wait_seconds = 0;       // for others
  std::uint64_t bytes_sent = 0;  // since the beginning
  std::uint64_t bytes_received = 0;
  std::optional<double> drift{};  // from what was agreed last

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

// A peer has done its last step.
struct Ended {
  std::uint64_t peak_memory = 0;  // bytes
  double busy_share = 0;
  std::uint64_t rounds = 0;
  std::optional<double> entropy_floor{};  // of the data that evaluations use
  std::uint64_t bytes_sent = 0;           // since the beginning, with what followed the last step
  std::uint64_t bytes_received = 0;

  bool operator==(const Ended&) const = default;
};

// A peer cannot go on.
struct Failed {
  std::string culprit{};  // name of the peer to blame; empty: this one
  std::string text{};

  bool operator==(const Failed&) const = default;
};

// The coordinator: begin no further step, and say in which one you are.
struct Stop {
  std::string reason{};

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

using SwarmMessage = std::variant<Introduction, Assignment, Ready, Plan, Linked, Begin, StepReport, Evaluated, Ended,
                                  Failed, Stop, Saved, Kept, Halted, EndAt>;

inline constexpr std::size_t kMaxPlannedPeers = 4096;
inline constexpr std::uint32_t kMaxLayers = 1 << 16;
inline constexpr std::uint32_t kMaxInFlight = 1 << 12;
inline constexpr std::uint64_t kMaxStepSamples = std::uint64_t{1} << 40;  // or tokens
inline constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 56;        // of all of a run
inline constexpr std::size_t kMaxSettingsBytes = 256 * 1024;
inline constexpr std::size_t kMaxFiles = 4096;

// Whether a name may be given to a file that others send: relative, and nothing that leads elsewhere, is hidden, or
// cannot be shown.
bool is_file_name(std::string_view name);

std::vector<std::byte> encode(const SwarmMessage& message);

// Throws WireError if the bytes are no message, a field is missing or beyond its limits, or a number is not finite or
// negative.
SwarmMessage decode_swarm_message(std::span<const std::byte> bytes);

}  // namespace rookery::wire
