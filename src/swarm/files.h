#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "net/link.h"
#include "wire/swarm_message.h"

namespace rookery::swarm {

// Runs something that may take long where it does not hold up the network; empty: here and now.
using Aside = std::function<Task<>(std::function<void()>)>;
Task<> aside(Aside place, std::function<void()> work);

// Files that the two ends of a link give each other, by their digests: data sets and checkpoints. What was not offered
// cannot be fetched. Confined to the link's executor; the link outlives this.
class Files {
 public:
  // The ends are different ones: one coordinates.
  enum class End { kCoordinator, kPeer };
  Files(Executor executor, net::Link& link, End end, Aside aside);
  ~Files();
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  // From now on the other end may fetch this file, and until it is withdrawn.
  void offer(const wire::FileFacts& facts, const std::filesystem::path& path);
  void withdraw(const wire::FileFacts& facts);

  // Fetches a file that the other end has offered. At `path` it is whole, and what the facts say, or not at all. Throws
  // LinkError if the other end does not give it, and InputError if it cannot be written. `moved` is called on the way,
  // whenever more of it has come. Requires: no other fetch() of this end is running.
  Task<> fetch(wire::FileFacts facts, std::filesystem::path path, std::function<void(std::uint64_t bytes)> moved = {});

 private:
  struct Shelf;
  static Task<> serve(std::shared_ptr<Shelf> shelf);

  std::shared_ptr<Shelf> shelf_;            // what this end gives
  std::unique_ptr<net::Channel> requests_;  // what it asks for
  Aside aside_;
};

// What is to be known about a file that is called `name` to others. Throws InputError if it cannot be read.
wire::FileFacts facts_of(const std::filesystem::path& path, const std::string& name);

}  // namespace rookery::swarm
