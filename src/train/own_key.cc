#include "train/own_key.h"

#include "base/error.h"
#include "base/log.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;

fs::path lock_in(const fs::path& folder, const std::string& name) {
  std::error_code ignored;  // then there is no lock, either
  fs::create_directories(folder, ignored);
  return folder / (name + ".lock");
}

net::Identity identity_in(const fs::path& folder, const std::string& name, bool is_own) {
  if (!is_own) return net::Identity::generate();
  try {
    return net::Identity::load_or_create(folder / (name + ".pem"));
  } catch (const InputError& error) {
    spdlog::warn("{}; joining with another key", error.what());
    return net::Identity::generate();
  }
}

}  // namespace

OwnKey::OwnKey(const fs::path& folder, const std::string& name)
    : lock_(lock_in(folder, name), {}), identity_(identity_in(folder, name, lock_.is_held())) {}

}  // namespace rookery::train
