#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "train/local_peers.h"

namespace rookery::train {

// What happens to whom, and when.
struct Blow {
  enum class Kind { kKill, kFreeze, kCut };

  double at = 0;  // seconds since the beginning
  Kind kind{};
  std::size_t peer = 0;

  bool operator==(const Blow&) const = default;
};

// What is done to the peers of a local swarm, to see whether the run bears it.
struct ChaosOptions {
  double kills = 0, freezes = 0;       // a second, of all peers together
  double cuts = 0;                     // of links between two of them
  std::vector<Blow> appointed{};       // besides, in the order of their times
  std::chrono::nanoseconds rejoin{0};  // after which a peer that has gone comes again; 0: it does not
  std::chrono::nanoseconds thaw{0};    // after which a frozen one goes on

  bool operator==(const ChaosOptions&) const = default;
};

// "kill 0.02/s, freeze 0.01/s, cut 0.01/s, rejoin 10s, thaw 20s": in any order, each at most once. What is left out: no
// kills, freezes or cuts, rejoin 10s, thaw 20s. "kill 3 at 20s", as often as wanted: that peer, so long after the
// beginning. Throws InputError, one sentence.
ChaosOptions parse_chaos(const std::string& text);

// Blows by appointment, and those that are drawn from the seed, however long a run takes.
class ChaosSchedule {
 public:
  // Throws InputError if there is no such peer. Requires: peers > 0
  ChaosSchedule(ChaosOptions options, std::size_t peers, std::uint64_t seed);

  // The next one; endlessly late if there are none.
  const Blow& next() const { return is_appointed() ? options_.appointed[kept_] : random_; }
  void pass();

 private:
  bool is_appointed() const {
    return kept_ < options_.appointed.size() && options_.appointed[kept_].at <= random_.at;
  }
  void draw();

  ChaosOptions options_;
  std::size_t peers_;
  std::size_t kept_ = 0;  // appointments
  std::uint64_t seed_, drawn_ = 0;
  Blow random_;
};

// Carries a schedule out on real processes, by signals; for a cut, kCutSignal of join.h. Whoever is hit while it is not
// there is spared.
class Chaos {
 public:
  // Who is told what happens to whom.
  using Tell = std::function<void(const std::string& peer, const std::string& what)>;

  // The peers outlive this.
  Chaos(ChaosOptions options, std::uint64_t seed, LocalPeers& peers, Tell tell);

  // Does what is due `seconds` after the beginning; to be called often.
  void look(double seconds);

 private:
  struct Fate {
    double thaws_at = 0, returns_at = 0;  // 0: it does not have to
  };

  void strike(const Blow& blow);
  void care_for(std::size_t peer, double seconds);

  ChaosOptions options_;
  LocalPeers& peers_;
  Tell tell_;
  ChaosSchedule schedule_;
  std::vector<Fate> fates_;
};

}  // namespace rookery::train
