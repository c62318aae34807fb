#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace rookery::net {

// Why an operation on a link failed. The numbers travel in frames: new ones are added at the end.
enum class Failure : std::uint16_t {
  kClosed = 0,       // the other end closed it, or its process ended
  kSilent = 1,       // nothing was heard for too long: frozen, cut off, or asleep
  kLate = 2,         // alive, but a deadline passed
  kProtocol = 3,     // sent what the protocol does not allow
  kRefused = 4,      // did not let us in, or we did not let it in
  kUnreachable = 5,  // could not be dialled
  kCancelled = 6,    // by this end
};

std::string_view name_of(Failure failure);

// A link, a channel or an operation on it has failed, and for good. Names the peer to blame, which need not be the one
// at the other end: a failure travels on, and keeps its name.
class LinkError : public Error {
 public:
  // what() is "PEER: TEXT".
  LinkError(Failure failure, std::string peer, std::string_view text);

  Failure failure() const { return failure_; }
  const std::string& peer() const { return peer_; }
  std::string_view text() const;  // without the peer

 private:
  Failure failure_;
  std::string peer_;
};

}  // namespace rookery::net
