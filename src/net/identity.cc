#include "net/identity.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include "base/error.h"
#include "base/file.h"
#include "net/internal/openssl.h"

namespace rookery::net {
namespace internal {

std::string openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "unknown error";
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "error " + std::to_string(code);
}

Fingerprint fingerprint_of(EVP_PKEY& key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(&key, &der);
  if (size <= 0) throw Error("a public key could not be encoded: {}", openssl_error());
  Fingerprint::Bytes bytes;
  SHA256(der, static_cast<std::size_t>(size), reinterpret_cast<unsigned char*>(bytes.data()));
  OPENSSL_free(der);
  return Fingerprint(bytes);
}

}  // namespace internal

namespace {

using internal::BioPointer;
using internal::CertificatePointer;
using internal::KeyPointer;
using internal::openssl_error;

// The certificate says nothing but its key: no name, no dates that a wrong clock could trip over.
CertificatePointer self_signed(EVP_PKEY& key) {
  CertificatePointer certificate(X509_new());
  X509_NAME* name = X509_get_subject_name(certificate.get());
  const auto* common_name = reinterpret_cast<const unsigned char*>("rookery");
  const bool made = X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
                    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1) == 1 &&
                    ASN1_TIME_set_string(X509_getm_notBefore(certificate.get()), "20000101000000Z") == 1 &&
                    ASN1_TIME_set_string(X509_getm_notAfter(certificate.get()), "99991231235959Z") == 1 &&
                    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, common_name, -1, -1, 0) == 1 &&
                    X509_set_issuer_name(certificate.get(), name) == 1 &&
                    X509_set_pubkey(certificate.get(), &key) == 1 && X509_sign(certificate.get(), &key, nullptr) > 0;
  if (!made) throw Error("a certificate could not be made: {}", openssl_error());
  return certificate;
}

std::shared_ptr<const Identity::Key> with_certificate(KeyPointer key) {
  auto certificate = self_signed(*key);
  return std::make_shared<Identity::Key>(Identity::Key{std::move(key), std::move(certificate)});
}

KeyPointer new_key() {
  KeyPointer key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  if (!key) throw Error("a key could not be made: {}", openssl_error());
  return key;
}

KeyPointer read_key(const std::filesystem::path& file) {
  struct stat facts {};
  if (::stat(file.c_str(), &facts) == 0 && (facts.st_mode & 077) != 0) {
    throw InputError("{}: others may read this key; run 'chmod 600 {}', or remove it to get a new one", file.string(),
                     file.string());
  }
  const std::string pem = read_file(file, 1 << 14);
  const BioPointer bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  // Without a function for it, OpenSSL would ask the terminal for a password.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  KeyPointer key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (!key || EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519) {
    throw InputError("{}: holds no Ed25519 key; remove it to get a new one", file.string());
  }
  return key;
}

// False if there is a file already.
bool write_key(const std::filesystem::path& file, EVP_PKEY& key) {
  const BioPointer bio(BIO_new(BIO_s_mem()));
  char* pem = nullptr;
  if (PEM_write_bio_PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    throw Error("a key could not be encoded: {}", openssl_error());
  }
  const long size = BIO_get_mem_data(bio.get(), &pem);
  if (file.has_parent_path()) {
    std::error_code ignored;  // the next call tells
    std::filesystem::create_directories(file.parent_path(), ignored);
  }
  // Under a name of its own first, so that nobody ever reads half a key.
  const std::filesystem::path whole = file.string() + "." + std::to_string(::getpid());
  const int fd = ::open(whole.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written = fd >= 0 && ::write(fd, pem, static_cast<std::size_t>(size)) == size && ::fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  const bool linked = written && ::link(whole.c_str(), file.c_str()) == 0;
  const bool exists = written && !linked && errno == EEXIST;
  const int link_error = errno;
  if (fd >= 0) ::unlink(whole.c_str());
  if (linked || exists) return linked;
  throw InputError("{}: the key cannot be written: {}", file.string(),
                   std::system_category().message(written ? link_error : error));
}

}  // namespace

Fingerprint Fingerprint::parse(std::string_view text) {
  const auto digit = [&](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    throw InputError("'{}' is no fingerprint: it has 64 digits from 0 to 9 and a to f", text.substr(0, 80));
  };
  if (text.size() != 2 * kBytes) digit('?');
  Bytes bytes;
  for (std::size_t i = 0; i < kBytes; ++i) {
    bytes[i] = static_cast<std::byte>(16 * digit(text[2 * i]) + digit(text[2 * i + 1]));
  }
  return Fingerprint(bytes);
}

std::string Fingerprint::text() const {
  std::string text;
  for (const std::byte byte : bytes_) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

std::string Fingerprint::shortened() const { return text().substr(0, 8); }

Identity::Identity(std::shared_ptr<const Key> key)
    : key_(std::move(key)), fingerprint_(internal::fingerprint_of(*key_->key)) {
  std::size_t size = public_key_.size();
  auto* const raw = reinterpret_cast<unsigned char*>(public_key_.data());
  const bool got = EVP_PKEY_get_raw_public_key(key_->key.get(), raw, &size) == 1;
  ROOKERY_CHECK(got && size == public_key_.size());
}

Identity::Signature Identity::sign(std::span<const std::byte> bytes) const {
  Signature signature;
  std::size_t size = signature.size();
  const internal::DigestPointer context(EVP_MD_CTX_new());
  const bool made = EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_->key.get()) == 1 &&
                    EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                                   reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) == 1;
  if (!made || size != signature.size()) throw Error("signing failed: {}", openssl_error());
  return signature;
}

namespace {

KeyPointer from_raw(const Identity::PublicKey& key) {
  KeyPointer result(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr,
                                                reinterpret_cast<const unsigned char*>(key.data()), key.size()));
  if (!result) throw Error("a public key could not be read: {}", openssl_error());
  return result;
}

}  // namespace

Fingerprint fingerprint_of(const Identity::PublicKey& key) { return internal::fingerprint_of(*from_raw(key)); }

bool is_signed_by(const Identity::PublicKey& key, std::span<const std::byte> bytes,
                  std::span<const std::byte> signature) {
  const KeyPointer signer = from_raw(key);
  const internal::DigestPointer context(EVP_MD_CTX_new());
  const bool good =
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, signer.get()) == 1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()), signature.size(),
                       reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) == 1;
  ERR_clear_error();
  return good;
}

void fill_with_secret(std::span<std::byte> bytes) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) != 1) {
    throw Error("the system has no random numbers: {}", openssl_error());
  }
}

Identity Identity::generate() { return Identity(with_certificate(new_key())); }

Identity Identity::from_seed(std::uint64_t seed) {
  const std::string text = fmt::format("rookery identity {}", seed);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> raw{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), raw.data());
  KeyPointer key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, raw.data(), raw.size()));
  if (!key) throw Error("a key could not be made: {}", openssl_error());
  return Identity(with_certificate(std::move(key)));
}

void Identity::save(const std::filesystem::path& file) const { write_key(file, *key_->key); }

Identity Identity::load_or_create(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    KeyPointer key = new_key();
    if (write_key(file, *key)) return Identity(with_certificate(std::move(key)));
    // Somebody else was first; theirs it is.
  }
  return Identity(with_certificate(read_key(file)));
}

}  // namespace rookery::net
