#include "collective/testing/virtual_mesh.h"

namespace rookery::collective::testing {

Mesh::Mesh(Clock& clock, std::size_t peers, net::LineOptions line, std::uint64_t seed) {
  for (std::size_t i = 0; i < peers; ++i) ends_.emplace_back(peers);
  const auto open = [&](std::size_t from, std::size_t to, std::unique_ptr<net::MemoryPipe> pipe) {
    End& end = ends_[from][to];
    end.pipe = pipe.get();
    std::vector<std::unique_ptr<net::Pipe>> pipes;
    pipes.push_back(std::move(pipe));
    end.link = net::make_link(clock, std::move(pipes), {.peer = "p" + std::to_string(to)});
  };
  for (std::size_t a = 0; a < peers; ++a) {
    for (std::size_t b = a + 1; b < peers; ++b) {
      auto [x, y] = net::make_memory_pipes(clock, std::make_shared<net::Line>(line, seed * 1000003 + a * peers + b),
                                           std::make_shared<net::Line>(line, seed * 1000003 + b * peers + a));
      open(a, b, std::move(x));
      open(b, a, std::move(y));
    }
  }
}

std::vector<net::Link*> Mesh::links(std::size_t rank) const {
  std::vector<net::Link*> links;
  for (const End& end : ends_[rank]) links.push_back(end.link.get());
  return links;
}

void Mesh::kill(std::size_t peer) {
  for (const End& end : ends_[peer]) {
    if (is_open(end)) end.pipe->close();
  }
}

void Mesh::freeze(std::size_t peer) {
  for (std::size_t other = 0; other < ends_.size(); ++other) {
    for (const End& end : {std::cref(ends_[peer][other]), std::cref(ends_[other][peer])}) {
      if (is_open(end)) end.pipe->set_cut(true);
    }
  }
}

}  // namespace rookery::collective::testing
