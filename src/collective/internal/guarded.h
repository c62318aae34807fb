#pragma once

#include <functional>
#include <optional>

#include "base/task.h"
#include "net/error.h"

namespace rookery::collective::internal {

// A failure of one task ends what belongs to it, here and on all other members: `cancel` sees to that.
inline Task<> guarded(Task<> task, std::function<void(const net::LinkError&)> cancel) {
  std::optional<net::LinkError> failure;
  try {
    co_await std::move(task);
  } catch (const net::LinkError& error) {
    failure = error;
  }
  if (!failure) co_return;
  cancel(*failure);
  throw net::LinkError(*failure);
}

}  // namespace rookery::collective::internal
