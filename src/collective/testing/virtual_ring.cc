#include "collective/testing/virtual_ring.h"

namespace rookery::collective::testing {

VirtualRing::VirtualRing(std::size_t peers, Options options) : size_(peers) {
  const std::size_t count = peers == 1 ? 0 : peers == 2 ? 1 : peers;
  for (std::size_t i = 0; i < count; ++i) {
    Connection connection{.a = i, .b = (i + 1) % peers};
    auto [a, b] =
        net::make_memory_pipes(world_.clock(), std::make_shared<net::Line>(options.line, options.seed * 1000 + 2 * i),
                               std::make_shared<net::Line>(options.line, options.seed * 1000 + 2 * i + 1));
    connection.pipe_a = a.get();
    connection.pipe_b = b.get();
    const auto link = [&](std::unique_ptr<net::Pipe> pipe, std::size_t to) {
      std::vector<std::unique_ptr<net::Pipe>> pipes;
      pipes.push_back(std::move(pipe));
      return net::make_link(
          world_.clock(), std::move(pipes),
          {.peer = "p" + std::to_string(to), .heartbeat = options.heartbeat, .silence = options.silence});
    };
    connection.link_a = link(std::move(a), connection.b);
    connection.link_b = link(std::move(b), connection.a);
    connections_.push_back(std::move(connection));
  }
}

Ring VirtualRing::ring(std::size_t rank) const {
  if (size_ == 1) return {};
  if (size_ == 2) {
    net::Link* other = rank == 0 ? connections_[0].link_a.get() : connections_[0].link_b.get();
    return {.rank = rank, .size = 2, .previous = other, .next = other};
  }
  return {.rank = rank,
          .size = size_,
          .previous = connections_[(rank + size_ - 1) % size_].link_b.get(),
          .next = connections_[rank].link_a.get()};
}

std::vector<Outcome> VirtualRing::run(const std::function<Task<>(std::size_t)>& task, Time limit) {
  return run_all(world_, size_, task, limit);
}

// Links that have ended have let go of their pipes.
void VirtualRing::cut_from(const Connection& c, std::size_t peer, bool is_cut) {
  if (c.a == peer && !c.link_a->has_ended()) c.pipe_a->set_cut(is_cut);
  if (c.b == peer && !c.link_b->has_ended()) c.pipe_b->set_cut(is_cut);
}

void VirtualRing::kill(std::size_t peer) {
  for (const Connection& c : connections_) {
    if (c.a == peer && !c.link_a->has_ended()) c.pipe_a->close();
    if (c.b == peer && !c.link_b->has_ended()) c.pipe_b->close();
  }
}

void VirtualRing::freeze(std::size_t peer, bool frozen) {
  for (const Connection& c : connections_) {
    if (c.a != peer && c.b != peer) continue;
    cut_from(c, c.a, frozen);
    cut_from(c, c.b, frozen);
  }
}

void VirtualRing::cut(std::size_t from, std::size_t to, bool is_cut) {
  for (const Connection& c : connections_) {
    if ((c.a == from && c.b == to) || (c.a == to && c.b == from)) cut_from(c, from, is_cut);
  }
}

}  // namespace rookery::collective::testing
