#include "sync/method.h"

#include "base/error.h"

namespace rookery::sync {

Task<> Method::before_update(std::uint64_t /*step*/, Copy /*copy*/) { co_return; }

void Method::pull(std::uint64_t /*step*/, double /*lr_share*/, Copy /*copy*/) { ROOKERY_CHECK(false, "no such move"); }

Task<> Method::after_step(std::uint64_t /*step*/, Copy /*copy*/) { co_return; }

Task<> Method::settle(Copy /*copy*/) { co_return; }

}  // namespace rookery::sync
