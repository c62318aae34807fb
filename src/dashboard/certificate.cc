#include "dashboard/certificate.h"

#include <memory>

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "base/error.h"

namespace rookery::dashboard {
namespace {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

using KeyPointer = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using X509Pointer = std::unique_ptr<X509, Deleter<X509_free>>;
using ExtensionPointer = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>>;
using BioPointer = std::unique_ptr<BIO, Deleter<BIO_free_all>>;

constexpr long kValidSeconds = 10L * 365 * 24 * 3600;

std::string content_of(BIO& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(&bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string alternative_names(const std::vector<std::string>& hosts) {
  std::string names;
  for (const std::string& host : hosts) {
    boost::system::error_code error;
    boost::asio::ip::make_address(host, error);
    names += fmt::format("{}{}:{}", names.empty() ? "" : ",", error ? "DNS" : "IP", host);
  }
  return names;
}

bool sign(X509& certificate, EVP_PKEY& key, const std::vector<std::string>& hosts) {
  std::uint64_t serial = 0;
  X509_NAME* name = X509_get_subject_name(&certificate);
  const auto* common_name = reinterpret_cast<const unsigned char*>("rookery");
  const ExtensionPointer alternatives(
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, alternative_names(hosts).c_str()));
  return alternatives && RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1 &&
         X509_set_version(&certificate, X509_VERSION_3) == 1 &&
         ASN1_INTEGER_set_uint64(X509_get_serialNumber(&certificate), serial >> 1) == 1 &&
         X509_gmtime_adj(X509_getm_notBefore(&certificate), -24L * 3600) != nullptr &&
         X509_gmtime_adj(X509_getm_notAfter(&certificate), kValidSeconds) != nullptr &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, common_name, -1, -1, 0) == 1 &&
         X509_set_issuer_name(&certificate, name) == 1 && X509_set_pubkey(&certificate, &key) == 1 &&
         X509_add_ext(&certificate, alternatives.get(), -1) == 1 && X509_sign(&certificate, &key, EVP_sha256()) > 0;
}

}  // namespace

Certificate self_signed(const std::vector<std::string>& hosts) {
  const KeyPointer key(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));  // browsers do not know Ed25519
  const X509Pointer certificate(X509_new());
  const BioPointer written(BIO_new(BIO_s_mem())), written_key(BIO_new(BIO_s_mem()));
  const bool made = key && certificate && sign(*certificate, *key, hosts) &&
                    PEM_write_bio_X509(written.get(), certificate.get()) == 1 &&
                    PEM_write_bio_PrivateKey(written_key.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1;
  if (!made) throw Error("a certificate for the dashboard could not be made");
  return {content_of(*written), content_of(*written_key)};
}

std::string fingerprint_of(const std::string& certificate) {
  const BioPointer text(BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size())));
  const X509Pointer parsed(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (!parsed || X509_digest(parsed.get(), EVP_sha256(), digest, &size) != 1) {
    throw InputError("dashboard.certificate: is no certificate in PEM");
  }
  std::string result;
  for (unsigned i = 0; i < size; ++i) result += fmt::format("{}{:02X}", i > 0 ? ":" : "", digest[i]);
  return result;
}

}  // namespace rookery::dashboard
