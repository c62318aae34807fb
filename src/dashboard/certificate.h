#pragma once

#include <string>
#include <vector>

namespace rookery::dashboard {

// A key, and a certificate that says nobody but itself vouches for it; both in PEM. Browsers warn of it once.
struct Certificate {
  std::string certificate, key;
};

// For these names and addresses, for ten years.
Certificate self_signed(const std::vector<std::string>& hosts);

// SHA-256 of a certificate as browsers show it, "AB:CD:…". Throws InputError if it is none.
std::string fingerprint_of(const std::string& certificate);

}  // namespace rookery::dashboard
