#include "dashboard/client.h"

#include <optional>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

namespace rookery::dashboard {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using Stream = beast::tcp_stream;
using Encrypted = asio::ssl::stream<Stream>;

constexpr std::chrono::seconds kPatience(10);
constexpr std::uint64_t kMostBytes = 64 << 20;

std::string digest_of(X509* certificate) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (certificate == nullptr || X509_digest(certificate, EVP_sha256(), digest, &size) != 1) return "";
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{}{:02X}", i > 0 ? ":" : "", digest[i]);
  return text;
}

std::string value_of(const std::string& fragment, const std::string& key) {
  const std::string wanted = key + "=";
  for (std::size_t begin = 0; begin < fragment.size();) {
    const std::size_t end = std::min(fragment.find('&', begin), fragment.size());
    if (fragment.compare(begin, wanted.size(), wanted) == 0) {
      return fragment.substr(begin + wanted.size(), end - begin - wanted.size());
    }
    begin = end + 1;
  }
  return "";
}

}  // namespace

Url parse_url(const std::string& text) {
  Url url;
  const std::size_t scheme = text.find("://"), hash = std::min(text.find('#'), text.size());
  const std::string kind = text.substr(0, scheme);
  if (scheme == std::string::npos || (kind != "http" && kind != "https")) {
    throw InputError("'{}' is not the address of a dashboard; it looks like http://127.0.0.1:8080/", text);
  }
  url.encrypted = kind == "https";
  std::string host = text.substr(scheme + 3, hash - scheme - 3);
  host = host.substr(0, host.find('/'));
  const std::size_t colon = host.rfind(':');
  const bool has_port = colon != std::string::npos && host.find(']', colon) == std::string::npos;
  url.port = has_port ? host.substr(colon + 1) : url.encrypted ? "443" : "80";
  url.host = has_port ? host.substr(0, colon) : host;
  if (url.host.starts_with('[') && url.host.ends_with(']')) url.host = url.host.substr(1, url.host.size() - 2);
  if (url.host.empty() || url.port.empty())
    throw InputError("'{}' is not the address of a dashboard: it has no host", text);
  const std::string fragment = hash < text.size() ? text.substr(hash + 1) : "";
  url.token = value_of(fragment, "token");
  url.certificate = value_of(fragment, "certificate");
  return url;
}

struct Client::Core {
  explicit Core(Url where) : url(std::move(where)) {}

  Url url;
  asio::io_context io{};

  // Each operation has its time, whatever the other end does.
  void finish(const boost::system::error_code& error, const char* what) const {
    const bool is_distrust = error.category() == asio::error::get_ssl_category();
    if (is_distrust) throw Error("{}:{} {}: {}", url.host, url.port, what, error.message());
    if (error) throw NoAnswer("{}:{} {}: {}", url.host, url.port, what, error.message());
  }

  template <typename Start>
  void wait_for(const char* what, const Start& start) {
    boost::system::error_code result;
    start([&](const boost::system::error_code& error, auto&&...) { result = error; });
    io.restart();
    io.run();
    finish(result, what);
  }

  void connect(Stream& stream) {
    tcp::resolver resolver(io);
    boost::system::error_code error;
    const auto found = resolver.resolve(url.host, url.port, error);
    finish(error, "cannot be found");
    stream.expires_after(kPatience);
    wait_for("cannot be reached", [&](auto done) { stream.async_connect(found, done); });
  }

  // Whoever is not vouched for by anybody is believed if it is the one that was named.
  void check(Encrypted& stream) const {
    X509* certificate = SSL_get0_peer_certificate(stream.native_handle());
    if (digest_of(certificate) != url.certificate) {
      throw Error("{}:{} has another certificate than the address says: it may be somebody else", url.host, url.port);
    }
  }

  template <typename Any>
  std::string get(Any& stream) {
    http::request<http::empty_body> request{http::verb::get, "/api/state?brief", 11};
    request.set(http::field::host, url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]");
    if (!url.token.empty()) request.set(http::field::authorization, "Bearer " + url.token);
    beast::get_lowest_layer(stream).expires_after(kPatience);
    wait_for("cannot be asked", [&](auto done) { http::async_write(stream, request, done); });
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(kMostBytes);
    beast::get_lowest_layer(stream).expires_after(kPatience);
    wait_for("does not answer", [&](auto done) { http::async_read(stream, buffer, parser, done); });
    if (parser.get().result() == http::status::unauthorized) {
      throw Error("{}:{} wants the token of the run: take the whole address, as it was printed", url.host, url.port);
    }
    if (parser.get().result() != http::status::ok) {
      throw Error("{}:{} answers {}", url.host, url.port, parser.get().result_int());
    }
    return std::move(parser.get().body());
  }
};

Client::Client(Url url) : core_(std::make_unique<Core>(std::move(url))) {}

Client::~Client() = default;

Json Client::brief() {
  std::string text;
  if (core_->url.encrypted) {
    asio::ssl::context context(asio::ssl::context::tls_client);
    if (core_->url.certificate.empty()) {
      context.set_default_verify_paths();
      context.set_verify_mode(asio::ssl::verify_peer);
    }
    Encrypted stream(Stream(core_->io), context);
    if (core_->url.certificate.empty()) stream.set_verify_callback(asio::ssl::host_name_verification(core_->url.host));
    core_->connect(beast::get_lowest_layer(stream));
    core_->wait_for("cannot be trusted",
                    [&](auto done) { stream.async_handshake(asio::ssl::stream_base::client, done); });
    if (!core_->url.certificate.empty()) core_->check(stream);
    text = core_->get(stream);
  } else {
    Stream stream(core_->io);
    core_->connect(stream);
    text = core_->get(stream);
  }
  Json state = Json::parse(text, nullptr, false);
  if (!state.is_object() || !state.contains("run"))
    throw Error("{}:{} is no dashboard", core_->url.host, core_->url.port);
  return state;
}

}  // namespace rookery::dashboard
