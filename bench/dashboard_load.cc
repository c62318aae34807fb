// A dashboard with made-up traffic: 64 peers, 20 steps a second each, as a swarm would report them.
//   dashboard_load SECONDS     in real time: prints the address, then the processor time that it took
//   dashboard_load hour        an hour of the same as fast as it goes, with somebody who looks on: memory every six
//   minutes
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <future>
#include <thread>

#include <fmt/format.h>

#include "dashboard/dashboard.h"
#include "observe/memory.h"

namespace {

using namespace rookery;
using dashboard::View;

constexpr std::size_t kPeers = 64;
constexpr int kStepsPerSecond = 20;

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string name_of(std::size_t peer) { return fmt::format("peer-{:02}", peer); }

void begin(dashboard::Dashboard& shown) {
  shown.show([](View& view, double) {
    view.run.phase = dashboard::Phase::kTraining;
    view.plan.emplace().clusters = kPeers / 4;
    view.plan->predicted_step_seconds = 0.05;
    for (std::size_t i = 0; i < kPeers; ++i) {
      dashboard::PeerView& peer = view.peer(name_of(i));
      peer.state = dashboard::PeerView::State::kTraining;
      peer.hardware = "made up, 8 cores, 16 GiB";
      const auto stage = static_cast<std::uint32_t>(i % 4);
      peer.place = {static_cast<std::uint32_t>(i / 4), stage, 3 * stage, 3 * stage + 3};
      view.links[{name_of(i), name_of((i + 1) % kPeers)}] = {.kind = "pipeline", .bandwidth = 12.5e6};
      view.links[{name_of(i), name_of((i + 4) % kPeers)}] = {.kind = "ring", .bandwidth = 12.5e6};
    }
  });
}

// What happens in one step, and once a second what each peer was doing.
void step(dashboard::Dashboard& shown, std::int64_t number, double at) {
  const auto count = static_cast<std::uint64_t>(number);
  for (std::size_t i = 0; i < kPeers; ++i) {
    shown.show([=](View& view, double) {
      dashboard::PeerView& peer = view.peer(name_of(i));
      peer.bytes_sent = count * 40'000;
      peer.stepped(at, count, 0.04 + 0.0001 * static_cast<double>(i), 0.01);
    });
  }
  shown.show([=](View& view, double) {
    view.add_step({.step = number,
                   .loss = 5.0 / (1 + 0.01 * static_cast<double>(number)),
                   .seconds = at,
                   .step_seconds = 0.05,
                   .samples = 64 * number,
                   .tokens = 8192 * number,
                   .lr = 1e-3});
  });
  if (number % kStepsPerSecond != 0) return;
  for (std::size_t i = 0; i < kPeers; ++i) {
    shown.show([=](View& view, double) {
      std::vector<observe::ActivitySpan> spans;
      for (int s = 0; s < kStepsPerSecond; ++s) {
        const double begin = at - 1 + s * 0.05;
        spans.push_back({observe::ActivityKind::kForward, begin, begin + 0.015});
        spans.push_back({observe::ActivityKind::kBackward, begin + 0.015, begin + 0.04});
        spans.push_back({observe::ActivityKind::kUpdate, begin + 0.04, begin + 0.042});
      }
      view.add_spans(name_of(i), std::move(spans), at);
      view.peer(name_of(i)).resident = 200'000'000 + count;
      for (auto& [ends, link] : view.links) {
        if (ends.first == name_of(i)) link.rate.add(at, count * 20'000);
      }
    });
  }
  if (number % (kStepsPerSecond * 10) == 0) {
    shown.show([=](View& view, double) { view.add_event(at, "checkpoint", name_of(0), "at some step"); });
  }
}

void in_real_time(dashboard::Dashboard& shown, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  const double before = processor_seconds();
  for (std::int64_t number = 1; static_cast<double>(number) < seconds * kStepsPerSecond; ++number) {
    step(shown, number, shown.seconds());
    std::this_thread::sleep_until(start + number * std::chrono::milliseconds(1000 / kStepsPerSecond));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print("{{\"processor_share\": {:.4f}}}\n", (processor_seconds() - before) / took.count());
}

void an_hour(dashboard::Dashboard& shown) {
  constexpr std::int64_t kSteps = 3600 * kStepsPerSecond;
  for (std::int64_t number = 1; number <= kSteps; ++number) {
    step(shown, number, static_cast<double>(number) / kStepsPerSecond);
    if (number % kStepsPerSecond != 0) continue;
    std::promise<void> done;  // as much as it can take, and no more
    shown.show([&](View&, double) { done.set_value(); });
    done.get_future().wait();
    if (number % (kSteps / 10) == 0) {
      fmt::print("{{\"minutes\": {}, \"memory_bytes\": {}}}\n", number / kStepsPerSecond / 60,
                 observe::resident_memory());
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: dashboard_load SECONDS|hour\n");
    return 2;
  }
  dashboard::Dashboard shown({.run = {.name = "made-up", .model = "gpt", .parameters = 124'000'000, .steps = 72'000}},
                             [](dashboard::Command, View&) { return std::nullopt; });
  fmt::print("{}\n", shown.url());
  std::fflush(stdout);
  begin(shown);
  if (std::strcmp(argv[1], "hour") == 0) {
    std::this_thread::sleep_for(std::chrono::seconds(2));  // for somebody to come who looks on
    an_hour(shown);
  } else {
    in_real_time(shown, std::stod(argv[1]));
  }
}
