#include "net/tls/tls_pipe.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <openssl/err.h>

#include "base/signal.h"
#include "net/error.h"
#include "net/internal/openssl.h"

namespace rookery::net {
namespace {

using internal::ContextPointer;
using internal::openssl_error;
using internal::SslPointer;

constexpr Duration kLinger = std::chrono::seconds(1);
constexpr std::size_t kRecord = 16 * 1024;  // plain text in one TLS record

// OpenSSL over a pipe. It reads straight from the pipe; what it writes is kept in `out` until the pipe takes it, which
// `pump` sees to.
struct Engine {
  Engine(Clock& c, std::unique_ptr<Pipe> p) : clock(c), inner(std::move(p)), linger(c) {}

  Clock& clock;
  std::unique_ptr<Pipe> inner;
  SslPointer ssl;
  std::vector<std::byte> out;  // encrypted, not taken yet
  std::size_t out_taken = 0;   // of `out`
  std::exception_ptr failure;  // of the inner pipe, seen inside OpenSSL
  bool closed = false;
  Signal changed;  // something was added to `out`, or taken from it, or the end has come
  Alarm linger;    // how long a closed pipe may take for what is not out yet

  bool flushed() const { return out_taken == out.size(); }

  // Gives the pipe what it takes now.
  void flush() {
    while (!flushed()) {
      const ConstBytes part = ConstBytes(out).subspan(out_taken);
      const std::size_t n = inner->write(std::span(&part, 1));
      if (n == 0) return;
      out_taken += n;
    }
    out.clear();
    out_taken = 0;
  }

  void rethrow() {
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
  }
};

Engine& engine_of(BIO* bio) { return *static_cast<Engine*>(BIO_get_data(bio)); }

int bio_write(BIO* bio, const char* data, int size) {
  const auto bytes = std::as_bytes(std::span(data, static_cast<std::size_t>(size)));
  auto& out = engine_of(bio).out;
  out.insert(out.end(), bytes.begin(), bytes.end());
  return size;
}

int bio_read(BIO* bio, char* data, int size) {
  Engine& engine = engine_of(bio);
  BIO_clear_retry_flags(bio);
  try {
    const std::size_t n = engine.inner->read(std::as_writable_bytes(std::span(data, static_cast<std::size_t>(size))));
    if (n > 0) return static_cast<int>(n);
    BIO_set_retry_read(bio);
  } catch (...) {
    engine.failure = std::current_exception();  // no exception may cross OpenSSL; the caller throws it again
  }
  return -1;
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO* make_bio(Engine& engine) {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "rookery pipe");
    BIO_meth_set_write(m, bio_write);
    BIO_meth_set_read(m, bio_read);
    BIO_meth_set_ctrl(m, bio_control);
    return m;
  }();
  BIO* bio = BIO_new(method);
  BIO_set_data(bio, &engine);
  BIO_set_init(bio, 1);
  return bio;
}

// The fastest first; all are strong.
constexpr const char* kCiphers = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384";

// Any key is fine here: the caller compares its fingerprint. The handshake proves that the other end owns it.
int accept_any(X509_STORE_CTX*, void*) { return 1; }

ContextPointer make_context(const Identity& identity) {
  ContextPointer context(SSL_CTX_new(TLS_method()));
  const Identity::Key& key = identity.key();
  const bool made = context && SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                    SSL_CTX_use_certificate(context.get(), key.certificate.get()) == 1 &&
                    SSL_CTX_use_PrivateKey(context.get(), key.key.get()) == 1 &&
                    SSL_CTX_set_num_tickets(context.get(), 0) == 1 &&
                    SSL_CTX_set_ciphersuites(context.get(), kCiphers) == 1;
  if (!made) throw Error("TLS could not be set up: {}", openssl_error());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(context.get(), accept_any, nullptr);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(context.get(), 1);
  return context;
}

// What a call of OpenSSL that did not succeed means. Returns if it only has to wait for bytes.
void check_result(Engine& engine, int result) {
  const int error = SSL_get_error(engine.ssl.get(), result);
  engine.rethrow();
  if (error == SSL_ERROR_WANT_READ) return;
  if (error == SSL_ERROR_ZERO_RETURN) throw LinkError(Failure::kClosed, "", "the connection was closed");
  throw LinkError(Failure::kProtocol, "", "TLS failed: " + openssl_error());
}

// Moves what OpenSSL has written on to the pipe, as far as that was not possible at once.
Task<> pump(std::shared_ptr<Engine> engine) {
  try {
    while (!engine->closed || !engine->flushed()) {
      engine->flush();
      if (!engine->flushed()) {
        auto writable = engine->inner->writable();
        co_await std::move(writable);
        continue;
      }
      engine->changed.notify();  // there is room again
      if (engine->closed) break;
      auto wait = engine->changed.wait();
      co_await std::move(wait);
    }
  } catch (const LinkError&) {
    engine->closed = true;
  }
  engine->linger.cancel();
  engine->inner->close();
  engine->changed.notify();
}

class TlsPipe final : public Pipe {
 public:
  explicit TlsPipe(std::shared_ptr<Engine> engine, const Executor& executor)
      : engine_(std::move(engine)), plain_(kRecord) {
    boost::asio::co_spawn(executor, pump(engine_), boost::asio::detached);
  }
  ~TlsPipe() override { TlsPipe::close(); }

  // Encrypts a few records at a time, and no more before the pipe has taken them.
  std::size_t write(std::span<const ConstBytes> parts) override {
    check_open();
    std::size_t total = 0;
    for (ConstBytes part : parts) {
      while (!part.empty()) {
        if (!engine_->flushed()) return total;
        std::size_t n = 0;
        const int result = SSL_write_ex(engine_->ssl.get(), part.data(), std::min(part.size(), 4 * kRecord), &n);
        if (result != 1) check_result(*engine_, result);
        part = part.subspan(n);
        total += n;
        engine_->flush();
        if (!engine_->flushed()) engine_->changed.notify();
      }
    }
    return total;
  }

  Task<> writable() override {
    const auto engine = engine_;
    while (!engine->flushed() && !engine->closed) {
      auto wait = engine->changed.wait();
      co_await std::move(wait);
    }
  }

  std::size_t read(MutableBytes into) override {
    check_open();
    std::size_t total = std::min(into.size(), plain_end_ - plain_begin_);
    std::memcpy(into.data(), plain_.data() + plain_begin_, total);
    plain_begin_ += total;
    while (total < into.size()) {
      const std::size_t n = decrypt(into.subspan(total), total > 0);
      if (n == 0) break;
      total += n;
    }
    return total;
  }

  ConstBytes view(std::size_t limit) override {
    check_open();
    if (plain_begin_ == plain_end_) fill();
    return ConstBytes(plain_).subspan(plain_begin_, std::min(limit, plain_end_ - plain_begin_));
  }

  void skip(std::size_t bytes) override { plain_begin_ += bytes; }

  // Bytes of the pipe may be part of a record, and a record may be here though the pipe has no more bytes: only OpenSSL
  // can tell.
  Task<> readable() override {
    const auto engine = engine_;
    try {
      if (plain_begin_ == plain_end_ && !engine->closed) fill();
    } catch (const LinkError&) {
      co_return;  // the next read throws it again
    }
    if (plain_begin_ < plain_end_ || engine->closed) co_return;
    auto readable = engine->inner->readable();
    co_await std::move(readable);
  }

  void close() override {
    if (engine_->closed) return;
    engine_->closed = true;
    SSL_shutdown(engine_->ssl.get());  // tells the other end that this is no accident
    ERR_clear_error();
    engine_->changed.notify();  // the pump closes the pipe when all is out
    Pipe& inner = *engine_->inner;
    engine_->linger.set(engine_->clock.now() + kLinger, [&inner] { inner.close(); });
  }

  std::size_t piece() const override { return std::min<std::size_t>(engine_->inner->piece(), 128 * 1024); }

 private:
  void check_open() const {
    if (engine_->closed) throw LinkError(Failure::kClosed, "", "the connection was closed");
  }

  void fill() {
    plain_begin_ = 0;
    plain_end_ = 0;
    plain_end_ = decrypt(plain_, false);
  }

  // 0 if there is nothing now; also at the end of the stream, if `some` was read before: the next call tells.
  std::size_t decrypt(MutableBytes into, bool some) {
    std::size_t n = 0;
    const int result = SSL_read_ex(engine_->ssl.get(), into.data(), into.size(), &n);
    if (result == 1) return n;
    if (some) {
      engine_->failure = nullptr;  // it fails again
      ERR_clear_error();
      return 0;
    }
    check_result(*engine_, result);
    return 0;
  }

  std::shared_ptr<Engine> engine_;
  std::vector<std::byte> plain_;  // [begin, end) is decrypted and was not read
  std::size_t plain_begin_ = 0, plain_end_ = 0;
};

Fingerprint other_fingerprint(SSL& ssl) {
  const X509* certificate = SSL_get0_peer_certificate(&ssl);
  EVP_PKEY* key = certificate == nullptr ? nullptr : X509_get0_pubkey(certificate);
  if (key == nullptr || EVP_PKEY_get_id(key) != EVP_PKEY_ED25519) {
    throw LinkError(Failure::kRefused, "", "showed no Ed25519 key");
  }
  return internal::fingerprint_of(*key);
}

}  // namespace

Task<SecurePipe> secure(Clock& clock, std::unique_ptr<Pipe> inner, const Identity& identity, TlsRole role,
                        Time deadline) {
  const auto engine = std::make_shared<Engine>(clock, std::move(inner));
  const ContextPointer context = make_context(identity);
  engine->ssl.reset(SSL_new(context.get()));
  BIO* bio = make_bio(*engine);
  SSL_set_bio(engine->ssl.get(), bio, bio);
  SSL_set_mode(engine->ssl.get(), SSL_MODE_ENABLE_PARTIAL_WRITE);
  if (role == TlsRole::kClient) {
    SSL_set_connect_state(engine->ssl.get());
  } else {
    SSL_set_accept_state(engine->ssl.get());
  }

  bool late = false;
  Alarm alarm(clock);
  alarm.set(deadline, [&late, engine] {
    late = true;
    engine->inner->close();
  });
  try {
    for (bool done = false; !done;) {
      const int result = SSL_do_handshake(engine->ssl.get());
      done = result == 1;
      // What is to be said goes out first, also when it is that the handshake has failed.
      engine->flush();
      if (!done) check_result(*engine, result);
      while (!engine->flushed()) {
        auto writable = engine->inner->writable();
        co_await std::move(writable);
        engine->flush();
      }
      if (done) break;
      auto readable = engine->inner->readable();
      co_await std::move(readable);
    }
  } catch (const LinkError& error) {
    engine->inner->close();
    if (late) throw LinkError(Failure::kLate, "", "did not finish the TLS handshake in time");
    throw LinkError(error.failure(), "", error.text());
  }
  SecurePipe result{.pipe = nullptr, .other = other_fingerprint(*engine->ssl), .binding = {}};
  const std::string_view label = "EXPORTER-rookery-binding";
  if (SSL_export_keying_material(engine->ssl.get(), reinterpret_cast<unsigned char*>(result.binding.data()),
                                 result.binding.size(), label.data(), label.size(), nullptr, 0, 0) != 1) {
    throw LinkError(Failure::kProtocol, "", "TLS gave no binding: " + openssl_error());
  }
  result.pipe = std::make_unique<TlsPipe>(engine, clock.executor());
  co_return result;
}

}  // namespace rookery::net
