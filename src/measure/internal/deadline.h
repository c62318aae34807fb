#pragma once

#include <fmt/format.h>

#include "base/clock.h"
#include "base/units.h"
#include "net/link.h"

namespace rookery::measure {

// A link that was asked something, and must answer in time: else it is closed. The link outlives this.
class Deadline {
 public:
  Deadline(Clock& clock, net::Link& link, Duration patience) : alarm_(clock) {
    alarm_.set(clock.now() + patience, [&link, patience] {
      link.close(
          net::LinkError(net::Failure::kLate, "", fmt::format("did not answer within {}", format_duration(patience))));
    });
  }

 private:
  Alarm alarm_;
};

}  // namespace rookery::measure
