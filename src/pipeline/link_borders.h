#pragma once

#include <memory>

#include "base/clock.h"
#include "base/span.h"
#include "net/link.h"
#include "pipeline/borders.h"

namespace rookery::pipeline {

struct LinkBordersOptions {
  std::uint32_t generation = 0;
  std::uint32_t index = 0;  // neighbours may have several ways to each other
  collective::Codec codec = collective::Codec::kNone;
  // What neighbours may send: so many borders, of so many bytes each with their headers.
  std::size_t most_forward = 1, most_backward = 1;
  std::size_t forward_bytes = 0, backward_bytes = 0;
  bool newest_forward = false;  // of what goes forward only the newest matters: what waits to be sent, or taken, goes
                                // when there is something newer
  BeginSpan watch{};            // sends, by micro-batch
};

// Borders over links to the neighbours. Bytes move on the clock's executor; whoever computes may live on another one,
// its home. A neighbour that sends more than it may is given up.
class LinkBorders final : public Borders {
 public:
  // `previous`, `next`: nullptr at the ends of the pipeline. They outlive this. Made, and destroyed, on the clock's
  // executor, with the home at rest: nothing is sent any more, and nobody waits for changed().
  LinkBorders(Clock& clock, Executor home, net::Link* previous, net::Link* next, LinkBordersOptions options);
  ~LinkBorders() override;

  void send_forward(Border border) override;
  void send_backward(Border border) override;
  std::optional<Border> take_forward() override;
  std::optional<Border> take_backward() override;
  Signal& changed() override;

  // Fails everything, at both neighbours too. On the clock's executor.
  void cancel(const net::LinkError& reason);

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace rookery::pipeline
