#pragma once

#include <memory>
#include <string>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "net/identity.h"

namespace rookery::net {

namespace internal {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

using KeyPointer = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using CertificatePointer = std::unique_ptr<X509, Deleter<X509_free>>;
using BioPointer = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using ContextPointer = std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>>;
using DigestPointer = std::unique_ptr<EVP_MD_CTX, Deleter<EVP_MD_CTX_free>>;
using SslPointer = std::unique_ptr<SSL, Deleter<SSL_free>>;

// What OpenSSL has to say about the failure just now; clears it.
std::string openssl_error();

Fingerprint fingerprint_of(EVP_PKEY& key);

}  // namespace internal

struct Identity::Key {
  internal::KeyPointer key;
  internal::CertificatePointer certificate;
};

}  // namespace rookery::net
