#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/signal.h"
#include "net/link.h"

namespace rookery::train {

// What a stage is after some step: everything that another one needs to take its place.
using Snapshot = std::vector<float>;

// A stage's memory of itself, and of the stage before it: where there is only one cluster, nobody else could say what a
// stage was that is lost. Every few steps each stage keeps what it is, and sends it to the next one, the last one to
// the first. When all have what they were sent, that step is covered: all of the cluster can go back to it, though any
// one stage is lost.
//
//     stage k keeps      of itself: the covered one and one that may be the next;  of stage k-1: the same two
//
// A snapshot that is taken while the one before is still on its way, or waits to be covered, is left out; after a few
// times it is taken instead of that one, which somebody must have left out.
//
// Confined to the links' executor, which is the clock's. The links outlive this, or their next begin().
class Buddies {
 public:
  // `most_values`: that a snapshot can have. `holds`: told of each step of which this stage has the previous one's.
  Buddies(Clock& clock, std::size_t most_values, std::function<void(std::uint64_t step)> holds);
  ~Buddies();
  Buddies(const Buddies&) = delete;
  Buddies& operator=(const Buddies&) = delete;

  // Who are the neighbours now, and since which generation. What was on its way is forgotten; what is covered goes to
  // the next one again, which may be new.
  struct Neighbours {
    std::size_t stage = 0, stages = 1;
    std::uint32_t since = 0;
    net::Link* next = nullptr;
    net::Link* previous = nullptr;
  };
  void begin(const Neighbours& neighbours);

  // Whether a snapshot after this step would be taken. `every`: how many steps lie between two.
  bool wants(std::uint64_t step, std::uint64_t every) const;
  void keep(std::uint64_t step, Snapshot snapshot);

  void covered(std::uint64_t step);

  // The cluster goes back to a step: this is what the stage was then. What came later is forgotten.
  void go_back(std::uint64_t step, std::shared_ptr<const Snapshot> own);

  std::shared_ptr<const Snapshot> own(std::uint64_t step) const;
  std::shared_ptr<const Snapshot> of_previous(std::uint64_t step) const;

  // Lets go of the links.
  void end();

 private:
  struct Kept {
    std::uint64_t step = 0;
    std::shared_ptr<const Snapshot> what{};
  };

  // The one that is covered, and the one that may be next.
  struct Two {
    Kept sure, next;

    std::shared_ptr<const Snapshot> after(std::uint64_t step) const;
    void settle(std::uint64_t step);
  };

  // What goes over the links of one generation; ends when it is let go of, or a link ends.
  struct Session {
    std::unique_ptr<net::Channel> out, in;
    bool is_sending = false, is_over = false;
    Signal changed{};
  };

  static Task<> send(Buddies* self, std::shared_ptr<Session> session);
  static Task<> receive(Buddies* self, std::shared_ptr<Session> session);

  Clock& clock_;
  std::size_t most_values_;
  std::function<void(std::uint64_t step)> holds_;
  Two own_, previous_;
  std::shared_ptr<Session> session_;
};

}  // namespace rookery::train
