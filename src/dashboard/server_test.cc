#include "dashboard/server.h"

#include <fstream>
#include <list>
#include <sys/resource.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "dashboard/certificate.h"
#include "dashboard/dashboard.h"

namespace rookery::dashboard {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using testing::HasSubstr;

struct Address {
  unsigned short port = 0;
  std::string token;
};

Address address_of(const Dashboard& dashboard) {
  const std::string& url = dashboard.url();
  const std::size_t colon = url.rfind(':', url.find('#')), hash = url.find("#token=");
  return {static_cast<unsigned short>(std::stoi(url.substr(colon + 1))), url.substr(hash + 7, 32)};
}

// A client that asks, and waits for the answer.
class ServerTest : public testing::Test {
 protected:
  tcp::socket connect(unsigned short port) {
    tcp::socket socket(io_);
    socket.connect({asio::ip::address_v4::loopback(), port});
    return socket;
  }

  http::request<http::string_body> question(const std::string& target, const std::string& token = "") const {
    http::request<http::string_body> request{http::verb::get, target, 11};
    request.set(http::field::host, "127.0.0.1");
    if (!token.empty()) request.set(http::field::authorization, "Bearer " + token);
    return request;
  }

  template <typename Stream>
  http::response<http::string_body> exchange(Stream& stream, const http::request<http::string_body>& request) {
    http::write(stream, request);
    beast::flat_buffer buffer;
    http::response<http::string_body> response;
    http::read(stream, buffer, response);
    return response;
  }

  http::response<http::string_body> get(unsigned short port, const std::string& target) {
    tcp::socket socket = connect(port);
    return exchange(socket, question(target));
  }

  // What comes back for bytes that are no proper question.
  std::string raw(unsigned short port, const std::string& bytes) {
    tcp::socket socket = connect(port);
    boost::system::error_code ignored;
    asio::write(socket, asio::buffer(bytes), ignored);
    std::string answer;
    asio::read(socket, asio::dynamic_buffer(answer), ignored);
    return answer;
  }

  using WebSocket = beast::websocket::stream<tcp::socket>;

  WebSocket look_on(unsigned short port) {
    WebSocket socket(connect(port));
    socket.handshake("127.0.0.1", "/api/live");
    return socket;
  }

  static Json hear(WebSocket& socket) {
    beast::flat_buffer buffer;
    socket.read(buffer);
    return Json::parse(beast::buffers_to_string(buffer.data()));
  }

  static std::unique_ptr<Dashboard> make(DashboardOptions options = {}) {
    options.run.name = "tales";
    return std::make_unique<Dashboard>(std::move(options), [](Command, View&) { return std::nullopt; });
  }

  asio::io_context io_;
};

TEST_F(ServerTest, AnswersSeveralQuestionsOverOneConnection) {
  const auto dashboard = make();
  tcp::socket socket = connect(address_of(*dashboard).port);
  for (const auto& [target, wanted] : {std::pair("/", "<!doctype html"), std::pair("/api/state", "\"tales\""),
                                       std::pair("/metrics", "rookery_step")}) {
    const auto response = exchange(socket, question(target));
    EXPECT_EQ(response.result_int(), 200);
    std::string body = response.body();
    std::ranges::transform(body, body.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    EXPECT_THAT(body, HasSubstr(wanted));
    EXPECT_THAT(std::string(response[http::field::cache_control]), "no-store");
  }
}

TEST_F(ServerTest, KeepsThoseUpToDateWhoLookOn) {
  const auto dashboard = make();
  WebSocket one = look_on(address_of(*dashboard).port), other = look_on(address_of(*dashboard).port);
  EXPECT_EQ(hear(one)["type"], "state");
  EXPECT_EQ(hear(other)["run"]["may_control"], false);
  dashboard->show([](View& view, double seconds) { view.add_event(seconds, "lost", "attic", "is silent"); });
  for (WebSocket* socket : {&one, &other}) {
    Json update = hear(*socket);
    while (!update.contains("events")) update = hear(*socket);
    EXPECT_EQ(update["type"], "update");
    EXPECT_EQ(update["events"][0]["text"], "is silent");
  }
  WebSocket third = look_on(address_of(*dashboard).port);
  EXPECT_EQ(hear(third)["events"].size(), 1);
}

TEST_F(ServerTest, SaysGoodbyeWithTheLastNews) {
  auto dashboard = make();
  WebSocket socket = look_on(address_of(*dashboard).port);
  hear(socket);
  dashboard->show([](View& view, double) { view.run.phase = Phase::kEnded; });
  // It closes politely, so somebody has to be polite in return.
  std::optional<std::string> last;
  std::thread reader([&] {
    try {
      for (;;) {
        const Json update = hear(socket);
        if (update.contains("run")) last = update["run"]["phase"];
      }
    } catch (const boost::system::system_error& error) {
      EXPECT_EQ(error.code(), beast::websocket::error::closed);
    }
  });
  dashboard.reset();
  reader.join();
  EXPECT_EQ(last, "ended");
}

TEST_F(ServerTest, WhoeverDoesNotKeepUpGetsEverythingAnew) {
  const auto dashboard = make();
  WebSocket socket = look_on(address_of(*dashboard).port);
  hear(socket);
  // Far more than the system keeps between two ends.
  constexpr int kUpdates = 25, kPeers = 10;
  for (int i = 0; i < kUpdates; ++i) {
    dashboard->show([i](View& view, double seconds) {
      for (int peer = 0; peer < kPeers; ++peer) {
        view.peer(fmt::format("peer-{}", peer)).why = std::string(100'000, static_cast<char>('a' + i % 26));
      }
      view.add_event(seconds, "ready", "", std::to_string(i));
    });
    WebSocket another = look_on(address_of(*dashboard).port);  // so that it is sent at once
    hear(another);
  }
  std::size_t states = 0;
  for (bool is_last = false; !is_last;) {
    const Json message = hear(socket);
    states += message["type"] == "state" ? 1 : 0;
    is_last = message.contains("events") && !message["events"].empty() &&
              message["events"].back()["text"] == std::to_string(kUpdates - 1);
  }
  EXPECT_GE(states, 1);
}

TEST_F(ServerTest, NonsenseIsRefused) {
  const auto dashboard = make();
  const unsigned short port = address_of(*dashboard).port;
  EXPECT_THAT(raw(port, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n"),
              HasSubstr("431"));
  EXPECT_THAT(raw(port, "POST /api/stop HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000\r\n\r\n"),
              HasSubstr("413"));
  EXPECT_THAT(raw(port, "no such thing\r\n\r\n"), HasSubstr("400"));
  raw(port, std::string(100'000, '\0'));
  EXPECT_THAT(raw(port, "GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"),
              HasSubstr("404"));
  EXPECT_EQ(get(port, "/api/state").result_int(), 200);
}

TEST_F(ServerTest, OtherSitesCannotLookOn) {
  const auto dashboard = make();
  WebSocket socket(connect(address_of(*dashboard).port));
  socket.set_option(beast::websocket::stream_base::decorator(
      [](beast::websocket::request_type& request) { request.set(http::field::origin, "http://evil.example"); }));
  EXPECT_THROW(socket.handshake("127.0.0.1", "/api/live"), boost::system::system_error);
}

TEST_F(ServerTest, AThousandWhoSayNothingKeepNobodyOut) {
  rlimit files{};  // often not many more than a thousand; both ends of the connections are here
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  const auto dashboard = make();
  const unsigned short port = address_of(*dashboard).port;
  WebSocket viewer = look_on(port);
  hear(viewer);
  std::list<tcp::socket> idle;
  for (int i = 0; i < 1000; ++i) idle.push_back(connect(port));
  EXPECT_EQ(get(port, "/api/state").result_int(), 200);
  dashboard->show([](View& view, double seconds) { view.add_event(seconds, "lost", "attic", ""); });
  Json update = hear(viewer);
  while (!update.contains("events")) update = hear(viewer);
  std::size_t open = 0;
  for (tcp::socket& socket : idle) {
    socket.non_blocking(true);
    char byte = 0;
    boost::system::error_code error;
    socket.receive(asio::buffer(&byte, 1), 0, error);
    open += error == asio::error::would_block ? 1 : 0;
  }
  EXPECT_LE(open, 128);
}

TEST_F(ServerTest, BeyondThisComputerItIsEncryptedAndWantsTheToken) {
  const auto dashboard = make({.listen = "0.0.0.0:0"});
  EXPECT_THAT(dashboard->urls(), testing::Each(testing::StartsWith("https://")));
  EXPECT_THAT(dashboard->fingerprint(), testing::MatchesRegex("[0-9A-F]{2}(:[0-9A-F]{2}){31}"));
  const Address address = address_of(*dashboard);
  asio::ssl::context context(asio::ssl::context::tls_client);
  asio::ssl::stream<tcp::socket> stream(io_, context);
  stream.next_layer().connect({asio::ip::address_v4::loopback(), address.port});
  stream.handshake(asio::ssl::stream_base::client);
  for (const char* target : {"/", "/api/state", "/api/live", "/metrics", "/assets/nothing.js"}) {
    EXPECT_EQ(exchange(stream, question(target)).result_int(), 401) << target;
  }
  EXPECT_THAT(exchange(stream, question("/")).body(), HasSubstr("/assets/app.js"));  // which asks for the token
  EXPECT_EQ(exchange(stream, question("/assets/app.js")).result_int(), 200);
  EXPECT_EQ(exchange(stream, question("/api/state", address.token)).result_int(), 200);
  EXPECT_EQ(raw(address.port, "GET / HTTP/1.1\r\n\r\n"), "");  // without encryption there is nothing at all
}

TEST_F(ServerTest, IsFoundByAllAddressesOfThisComputer) {
  std::string asked;
  const auto dashboard = make({.listen = "0.0.0.0:0", .dialable = [&](const std::string& host) {
                                 asked = host;
                                 return std::vector<std::string>{"192.0.2.7", "2001:db8::7"};
                               }});
  EXPECT_EQ(asked, "0.0.0.0");
  ASSERT_EQ(dashboard->urls().size(), 2);
  EXPECT_THAT(dashboard->urls()[0], testing::StartsWith("https://192.0.2.7:"));
  EXPECT_THAT(dashboard->urls()[1], testing::StartsWith("https://[2001:db8::7]:"));
  // Its certificate is for them, and for whoever is here.
  asio::ssl::context context(asio::ssl::context::tls_client);
  asio::ssl::stream<tcp::socket> stream(io_, context);
  stream.next_layer().connect({asio::ip::address_v4::loopback(), address_of(*dashboard).port});
  stream.handshake(asio::ssl::stream_base::client);
  X509* certificate = SSL_get0_peer_certificate(stream.native_handle());
  for (const char* host : {"192.0.2.7", "2001:db8::7", "127.0.0.1"}) {
    EXPECT_EQ(X509_check_ip_asc(certificate, host, 0), 1) << host;
  }
  EXPECT_EQ(X509_check_host(certificate, "localhost", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_ip_asc(certificate, "192.0.2.8", 0), 0);
}

TEST_F(ServerTest, AWebSocketHasTheTokenAmongItsProtocols) {
  const auto dashboard = make();
  const Address address = address_of(*dashboard);
  for (const auto& [offered, may_control] : {std::pair("rookery, rookery-token." + address.token, true),
                                             std::pair(std::string("rookery, rookery-token.0"), false)}) {
    WebSocket socket(connect(address.port));
    socket.set_option(
        beast::websocket::stream_base::decorator([offer = offered](beast::websocket::request_type& request) {
          request.set(http::field::sec_websocket_protocol, offer);
        }));
    beast::websocket::response_type answer;
    socket.handshake(answer, "127.0.0.1", "/api/live");
    EXPECT_EQ(answer[http::field::sec_websocket_protocol], "rookery");
    EXPECT_EQ(hear(socket)["run"]["may_control"], may_control);
  }
}

// A page that is open finds its run again when that goes on with another process.
TEST_F(ServerTest, IsFoundWhereItWas) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / fmt::format("entrance-{}", ::getpid());
  for (const char* listen : {"127.0.0.1:0", "0.0.0.0:0"}) {
    SCOPED_TRACE(listen);
    std::filesystem::remove(file);
    const DashboardOptions options{.listen = listen, .entrance_file = file};
    auto first = make(options);
    const std::vector<std::string> urls = first->urls();
    const std::string fingerprint = first->fingerprint();
    using std::filesystem::perms;
    EXPECT_EQ(std::filesystem::status(file).permissions(), perms::owner_read | perms::owner_write);
    first.reset();
    const auto second = make(options);
    EXPECT_EQ(second->urls(), urls);
    EXPECT_EQ(second->fingerprint(), fingerprint);
    EXPECT_NE(make(options)->urls(), urls) << "somebody else is there";
    std::ofstream(file) << "{\"port\": \"none\"}";
    EXPECT_NE(make(options)->urls(), urls) << "who was there is not known any more";
  }
  std::filesystem::remove(file);
}

TEST_F(ServerTest, WhatCannotBeIsSaidInOneSentence) {
  const auto refusal = [](DashboardOptions options) -> std::string {
    try {
      make(std::move(options));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const auto taken = make();
  EXPECT_THAT(refusal({.listen = fmt::format("127.0.0.1:{}", address_of(*taken).port)}), HasSubstr("cannot listen on"));
  EXPECT_THAT(refusal({.listen = "nowhere.invalid:1"}), HasSubstr("dashboard.listen"));
  EXPECT_THAT(refusal({.certificate_file = "/nothing"}), HasSubstr("belong together"));
  EXPECT_THAT(refusal({.certificate_file = "/nothing", .key_file = "/nothing"}), HasSubstr("/nothing"));
}

TEST(CertificateTest, IsForTheNamesThatAreWanted) {
  const Certificate one = self_signed({"127.0.0.1", "attic.local"}), other = self_signed({"127.0.0.1"});
  EXPECT_THAT(one.certificate, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_THAT(one.key, HasSubstr("BEGIN PRIVATE KEY"));
  EXPECT_NE(fingerprint_of(one.certificate), fingerprint_of(other.certificate));
  EXPECT_THROW(fingerprint_of("nothing"), InputError);
}

}  // namespace
}  // namespace rookery::dashboard
