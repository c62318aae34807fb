#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace rookery::net {

// What a peer is known by: the SHA-256 of its public key.
class Fingerprint {
 public:
  static constexpr std::size_t kBytes = 32;
  using Bytes = std::array<std::byte, kBytes>;

  Fingerprint() = default;
  explicit Fingerprint(const Bytes& bytes) : bytes_(bytes) {}

  // From 64 hexadecimal digits. Throws InputError on anything else.
  static Fingerprint parse(std::string_view text);

  const Bytes& bytes() const { return bytes_; }
  std::string text() const;       // 64 hexadecimal digits
  std::string shortened() const;  // the first 8, for people

  auto operator<=>(const Fingerprint&) const = default;

 private:
  Bytes bytes_{};
};

// A peer's Ed25519 key pair, and a certificate that it has signed for itself. Immutable.
class Identity {
 public:
  // A new one, kept in memory only.
  static Identity generate();

  // The same for the same seed, for worlds that must come again: whoever knows the seed knows the key.
  static Identity from_seed(std::uint64_t seed);

  // The one in `file`, which is made on first use, readable for its owner alone. Throws InputError naming the file if
  // it cannot be read or written, holds something else, or others may read it.
  static Identity load_or_create(const std::filesystem::path& file);

  // Into a new file, readable for its owner alone; one that is there already stays. Throws InputError naming it if it
  // cannot be written.
  void save(const std::filesystem::path& file) const;

  const Fingerprint& fingerprint() const { return fingerprint_; }

  using PublicKey = std::array<std::byte, 32>;
  using Signature = std::array<std::byte, 64>;
  const PublicKey& public_key() const { return public_key_; }
  Signature sign(std::span<const std::byte> bytes) const;

  struct Key;
  const Key& key() const { return *key_; }

 private:
  explicit Identity(std::shared_ptr<const Key> key);

  std::shared_ptr<const Key> key_;
  Fingerprint fingerprint_;
  PublicKey public_key_{};
};

Fingerprint fingerprint_of(const Identity::PublicKey& key);
bool is_signed_by(const Identity::PublicKey& key, std::span<const std::byte> bytes,
                  std::span<const std::byte> signature);

// Bytes that nobody can guess. Throws Error if the system has none.
void fill_with_secret(std::span<std::byte> bytes);

}  // namespace rookery::net
