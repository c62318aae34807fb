#include <algorithm>

#include <fmt/format.h>

#include "swarm/internal/coordinator_core.h"

namespace rookery::swarm {
namespace {

constexpr std::size_t kMaxUnfetched = 4;           // checkpoints
constexpr std::uint64_t kBytesPerParameter = 128;  // of a checkpoint, at most, and
constexpr std::uint64_t kBytesBeside = 64 << 20;   // for what is not parameters

using net::Failure;
using net::LinkError;

}  // namespace

void Coordinator::Core::heard(Seat& seat, const wire::Saved& saved) {
  if (!begun_ || seat.ended || options_.incoming.empty()) throw wire::WireError("saved out of turn");
  if (seat.unfetched.size() >= kMaxUnfetched) throw wire::WireError("saves faster than anybody can fetch");
  std::uint64_t bytes = 0;
  for (const wire::FileFacts& file : saved.files) bytes += std::min(file.size, std::uint64_t{1} << 50);
  if (bytes > kBytesPerParameter * options_.parameters + kBytesBeside)
    throw wire::WireError("saved more than there can be");
  seat.unfetched.push_back(saved);
}

Task<> Coordinator::Core::keep(std::shared_ptr<Core> self, std::shared_ptr<Seat> seat) {
  try {
    while (!seat->unfetched.empty() && !self->closed_) {
      const wire::Saved& saved = seat->unfetched.front();
      const auto folder = self->options_.incoming / fmt::format("{}-{}.tmp", seat->name(), self->fetched_++);
      for (const wire::FileFacts& file : saved.files) {
        auto fetching = seat->files->fetch(file, folder / file.name, [&](std::uint64_t) { self->goes_on(); });
        co_await std::move(fetching);
      }
      if (self->closed_) break;
      bool is_whole = false;
      auto keeping = aside(self->options_.aside, [&] { is_whole = self->watcher_.keep(saved.step, folder); });
      co_await std::move(keeping);
      if (self->closed_) break;
      if (is_whole) self->watcher_.saved(seat->name(), saved.step);
      seat->say(wire::Kept{.step = saved.step});
      seat->unfetched.pop_front();
    }
  } catch (const LinkError&) {
    seat->unfetched.clear();  // it is gone, or breaks the rules
    if (!seat->gone) seat->close(LinkError(Failure::kProtocol, "", "did not give what it had saved"));
  } catch (const std::exception&) {
    self->break_off(std::current_exception());
  }
  self->changed_.notify();
}

}  // namespace rookery::swarm
