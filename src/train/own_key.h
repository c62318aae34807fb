#pragma once

#include <filesystem>
#include <string>

#include "base/file.h"
#include "net/identity.h"

namespace rookery::train {

// The key of a peer, which is the same whenever this user joins by this name: so a computer that was started again is
// recognised, and who was expelled stays so. Where another process has it, or it cannot be kept, it is a new one.
class OwnKey {
 public:
  OwnKey(const std::filesystem::path& folder, const std::string& name);

  const net::Identity& identity() const { return identity_; }

 private:
  FileLock lock_;
  net::Identity identity_;
};

}  // namespace rookery::train
