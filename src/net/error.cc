#include "net/error.h"

namespace rookery::net {

std::string_view name_of(Failure failure) {
  switch (failure) {
    case Failure::kClosed:
      return "closed";
    case Failure::kSilent:
      return "silent";
    case Failure::kLate:
      return "late";
    case Failure::kProtocol:
      return "protocol";
    case Failure::kRefused:
      return "refused";
    case Failure::kUnreachable:
      return "unreachable";
    case Failure::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

LinkError::LinkError(Failure failure, std::string peer, std::string_view text)
    : Error("{}: {}", peer, text), failure_(failure), peer_(std::move(peer)) {}

std::string_view LinkError::text() const { return std::string_view(what()).substr(peer_.size() + 2); }

}  // namespace rookery::net
