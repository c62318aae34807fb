#pragma once

#include <memory>

#include "base/clock.h"
#include "net/line.h"
#include "net/pipe.h"

namespace rookery::net {

// A pipe whose outgoing bytes pass through a line first: a slow network on a fast machine, without privileges. What
// arrives is left as it is; the other end shapes its own.
std::unique_ptr<Pipe> make_shaped_pipe(Clock& clock, std::unique_ptr<Pipe> inner, std::shared_ptr<Line> line);

}  // namespace rookery::net
