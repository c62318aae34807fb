#include "net/pipe.h"

namespace rookery::net {

Task<> Pipe::returned(std::uint64_t /*end*/) { co_return; }

}  // namespace rookery::net
