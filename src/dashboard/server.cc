#include "dashboard/server.h"

#include <algorithm>
#include <deque>
#include <list>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/signal.h"

namespace rookery::dashboard {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using asio::ip::tcp;
using boost::system::error_code;

using Socket = asio::basic_stream_socket<tcp, Executor>;
using Plain = beast::basic_stream<tcp, Executor>;
using Encrypted = asio::ssl::stream<Plain>;
using Response = http::response<http::string_body>;
using Parser = http::request_parser<http::string_body>;
using Message = std::shared_ptr<const std::string>;

constexpr std::size_t kMostHeaderBytes = 8 * 1024, kMostBodyBytes = 1024;
constexpr std::size_t kMostQueued = 4;  // updates for one who does not keep up

Request request_of(const Parser::value_type& message) {
  Request request{.method = std::string(message.method_string()), .target = std::string(message.target())};
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    request.fields.try_emplace(std::move(name), field.value());
  }
  return request;
}

Response response_of(Answer answer, bool keep_alive, bool head) {
  Response response{static_cast<http::status>(answer.status), 11};
  response.keep_alive(keep_alive);
  for (const auto& [name, value] : answer.fields) response.set(name, value);
  if (answer.status != 204) response.set(http::field::content_type, answer.type);
  const std::size_t size = answer.body.size();
  if (!head) response.body() = std::move(answer.body);
  if (answer.status == 204) return response;
  response.content_length(size);
  return response;
}

// What an asker has done wrong, if that is why its question could not be read.
std::optional<Answer> complaint(const error_code& error) {
  if (error == http::error::body_limit) return Answer{.status = 413, .body = "that is too much\n"};
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return Answer{.status = 431, .body = "that is too much\n"};
  const bool is_bad = error.category() == make_error_code(http::error::bad_method).category() &&
                      error != http::error::end_of_stream && error != http::error::partial_message;
  return is_bad ? std::optional(Answer{.status = 400, .body = "that is no HTTP\n"}) : std::nullopt;
}

// One who looks on.
struct Viewer {
  bool may_control = false;
  std::deque<Message> queue{};
  bool is_behind = true;  // gets everything anew
  bool has_ended = false;
  Signal changed{};
};

// A connection.
struct Visitor {
  std::function<void()> close{};
  Time since{};  // when it was last answered
  bool looks_on = false;
};

}  // namespace

class Server::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Clock& clock, ServerOptions options, View& view, std::function<double()> seconds, Site site)
      : clock_(clock),
        options_(std::move(options)),
        view_(view),
        seconds_(std::move(seconds)),
        acceptor_(clock.executor()),
        site_(std::move(site)),
        tick_(clock) {
    if (!options_.certificate.empty()) use_certificate();
    listen();
  }

  void start() { asio::co_spawn(clock_.executor(), accept(shared_from_this()), asio::detached); }

  unsigned port() const { return port_; }

  void flush() {
    const auto update = changes_.since_last(view_, seconds_());
    if (update) publish(*update);
  }

  void end() {
    if (has_ended_) return;
    flush();
    has_ended_ = true;
    tick_.cancel();
    error_code ignored;
    acceptor_.close(ignored);
    for (const auto& viewer : viewers_) viewer->changed.notify();
    for (const auto& visitor : visitors_) {
      if (!visitor->looks_on) visitor->close();
    }
  }

  static Task<> close(std::shared_ptr<Core> self) {
    constexpr Duration kFarewell = std::chrono::seconds(1);
    self->end();
    const Time deadline = self->clock_.now() + kFarewell;
    while (!self->visitors_.empty() && self->clock_.now() < deadline) {
      auto waiting = self->left_.wait_until(self->clock_, deadline);
      co_await std::move(waiting);
    }
    self->abandon();
  }

  void abandon() {
    end();
    for (const auto& visitor : visitors_) visitor->close();
  }

 private:
  void use_certificate() {
    try {
      tls_.emplace(asio::ssl::context::tls_server);
      tls_->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                        asio::ssl::context::no_tlsv1_1);
      tls_->use_certificate_chain(asio::buffer(options_.certificate));
      tls_->use_private_key(asio::buffer(options_.key), asio::ssl::context::pem);
    } catch (const boost::system::system_error& error) {
      throw InputError("dashboard.certificate: cannot be used: {}", error.code().message());
    }
  }

  void listen() {
    const std::size_t colon = options_.listen.rfind(':');
    std::string host = options_.listen.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    asio::ip::basic_resolver<tcp, Executor> resolver(clock_.executor());
    try {
      const auto found = resolver.resolve(host, options_.listen.substr(colon + 1), tcp::resolver::passive);
      const tcp::endpoint endpoint = *found.begin();
      acceptor_.open(endpoint.protocol());
      acceptor_.set_option(asio::socket_base::reuse_address(true));
      acceptor_.bind(endpoint);
      acceptor_.listen();
      port_ = acceptor_.local_endpoint().port();
    } catch (const boost::system::system_error& error) {
      throw InputError("dashboard.listen: cannot listen on {}: {}", options_.listen, error.code().message());
    }
  }

  static Task<> accept(std::shared_ptr<Core> self) {
    constexpr Duration kTryAgain = std::chrono::milliseconds(50);
    while (!self->has_ended_) {
      error_code error;
      Socket socket(self->clock_.executor());
      auto accepting = self->acceptor_.async_accept(socket, asio::redirect_error(kAwaitable, error));
      co_await std::move(accepting);
      if (self->has_ended_) break;
      if (error) {  // it was gone before, or too many files are open
        auto pausing = self->clock_.sleep_for(kTryAgain);
        co_await std::move(pausing);
      } else if (self->make_room()) {
        error_code ignored;
        socket.set_option(tcp::no_delay(true), ignored);
        asio::co_spawn(self->clock_.executor(), receive(self, std::move(socket)), asio::detached);
      }
    }
  }

  // False if all who are here look on.
  bool make_room() {
    if (visitors_.size() < options_.most_connections) return true;
    const auto oldest = std::ranges::min_element(
        visitors_, {}, [](const auto& visitor) { return std::pair(visitor->looks_on, visitor->since); });
    if ((*oldest)->looks_on) return false;
    (*oldest)->close();
    visitors_.erase(oldest);
    return true;
  }

  static Task<> receive(std::shared_ptr<Core> self, Socket socket) {
    const auto visitor = std::make_shared<Visitor>();
    visitor->since = self->clock_.now();
    self->visitors_.push_back(visitor);
    try {
      if (self->tls_) {
        Encrypted stream(Plain(std::move(socket)), *self->tls_);
        auto greeting = greet(self, visitor, stream);
        co_await std::move(greeting);
      } else {
        Plain stream(std::move(socket));
        auto serving = serve(self, visitor, stream);
        co_await std::move(serving);
      }
    } catch (const std::exception& error) {
      spdlog::debug("dashboard: {}", error.what());
    }
    std::erase(self->visitors_, visitor);
    self->left_.notify();
  }

  template <typename Stream>
  static Plain& socket_of(Stream& stream) {
    return beast::get_lowest_layer(stream);
  }

  static Task<> greet(std::shared_ptr<Core> self, std::shared_ptr<Visitor> visitor, Encrypted& stream) {
    visitor->close = [&stream] { socket_of(stream).close(); };
    socket_of(stream).expires_after(self->options_.patience);
    auto shaking = stream.async_handshake(asio::ssl::stream_base::server, kAwaitable);
    co_await std::move(shaking);
    auto serving = serve(self, visitor, stream);
    co_await std::move(serving);
  }

  // Answers one question after another, until there are no more, or it becomes one who looks on.
  template <typename Stream>
  static Task<> serve(std::shared_ptr<Core> self, std::shared_ptr<Visitor> visitor, Stream& stream) {
    visitor->close = [&stream] { socket_of(stream).close(); };
    beast::flat_buffer buffer(kMostHeaderBytes + kMostBodyBytes);
    for (bool goes_on = true; goes_on && !self->has_ended_;) {
      Parser parser;
      parser.header_limit(kMostHeaderBytes);
      parser.body_limit(kMostBodyBytes);
      socket_of(stream).expires_after(self->options_.patience);
      error_code error;
      auto reading = http::async_read(stream, buffer, parser, asio::redirect_error(kAwaitable, error));
      co_await std::move(reading);
      std::optional<Answer> answer;
      bool head = false;
      if (error) {
        answer = complaint(error);
        goes_on = false;
      } else {
        const Request request = request_of(parser.get());
        answer = self->site_.answer(request, self->view_, self->seconds_());
        if (answer->upgrades && websocket::is_upgrade(parser.get())) {
          auto looking = look_on(self, visitor, stream, parser.get(), answer->protocol, self->site_.has_token(request));
          co_await std::move(looking);
          co_return;
        }
        head = request.method == "HEAD";
        goes_on = parser.get().keep_alive();
      }
      if (!answer) co_return;
      const Response response = response_of(std::move(*answer), goes_on, head);
      socket_of(stream).expires_after(self->options_.patience);
      auto writing = http::async_write(stream, response, kAwaitable);
      co_await std::move(writing);
      visitor->since = self->clock_.now();
    }
    error_code ignored;
    socket_of(stream).socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

  template <typename Stream>
  static Task<> look_on(std::shared_ptr<Core> self, std::shared_ptr<Visitor> visitor, Stream& stream,
                        const Parser::value_type& question, std::string protocol, bool may_control) {
    socket_of(stream).expires_never();  // it has its own idea of time
    websocket::stream<Stream&, false> socket(stream);
    auto timeouts = websocket::stream_base::timeout::suggested(beast::role_type::server);
    timeouts.idle_timeout = std::chrono::seconds(30);
    timeouts.keep_alive_pings = true;
    socket.set_option(timeouts);
    socket.read_message_max(kMostBodyBytes);
    socket.text(true);
    socket.set_option(websocket::stream_base::decorator([protocol](websocket::response_type& response) {
      if (!protocol.empty()) response.set(http::field::sec_websocket_protocol, protocol);
    }));
    auto accepting = socket.async_accept(question, kAwaitable);
    co_await std::move(accepting);
    visitor->looks_on = true;
    const auto viewer = std::make_shared<Viewer>();
    viewer->may_control = may_control;
    self->viewers_.push_back(viewer);
    self->tick();
    TaskGroup group(self->clock_.executor());
    group.spawn(listen_to(*viewer, socket));
    group.spawn(write_to(self, *viewer, socket));
    auto joined = group.join();
    co_await std::move(joined);
    std::erase(self->viewers_, viewer);
  }

  // Nothing is expected; but that is how one learns that it has gone.
  template <typename WebSocket>
  static Task<> listen_to(Viewer& viewer, WebSocket& socket) {
    beast::flat_buffer buffer(kMostBodyBytes);
    error_code error;
    while (!error) {
      buffer.clear();
      auto reading = socket.async_read(buffer, asio::redirect_error(kAwaitable, error));
      co_await std::move(reading);
    }
    viewer.has_ended = true;
    viewer.changed.notify();
  }

  template <typename WebSocket>
  static Task<> write_to(std::shared_ptr<Core> self, Viewer& viewer, WebSocket& socket) {
    error_code error;
    while (!error && !viewer.has_ended) {
      if (viewer.is_behind && viewer.queue.empty()) self->catch_up(viewer);
      if (viewer.queue.empty()) {
        if (self->has_ended_) break;
        auto waiting = viewer.changed.wait();
        co_await std::move(waiting);
        continue;
      }
      const Message message = std::move(viewer.queue.front());
      viewer.queue.pop_front();
      auto writing = socket.async_write(asio::buffer(*message), asio::redirect_error(kAwaitable, error));
      co_await std::move(writing);
    }
    if (!error && !viewer.has_ended) {
      auto closing = socket.async_close(websocket::close_code::going_away, asio::redirect_error(kAwaitable, error));
      co_await std::move(closing);
    }
    socket_of(socket.next_layer()).close();
  }

  // The others are to know what this one then knows, so that all can have the same updates.
  void catch_up(Viewer& viewer) {
    flush();
    viewer.queue.clear();
    Json state = state_of(view_, seconds_());
    state["run"]["may_control"] = viewer.may_control;
    viewer.queue.push_back(text_of(state));
    viewer.is_behind = false;
  }

  static Message text_of(const Json& json) {
    return std::make_shared<const std::string>(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  void publish(const Json& update) {
    last_published_ = clock_.now();
    if (std::ranges::all_of(viewers_, [](const auto& viewer) { return viewer->is_behind; })) return;
    const Message message = text_of(update);
    for (const auto& viewer : viewers_) {
      if (viewer->is_behind) continue;
      if (viewer->queue.size() < kMostQueued) {
        viewer->queue.push_back(message);
      } else {
        viewer->queue.clear();
        viewer->is_behind = true;
      }
      viewer->changed.notify();
    }
  }

  // For as long as somebody looks on.
  void tick() {
    if (viewers_.empty() || has_ended_) return;
    flush();
    if (clock_.now() - last_published_ >= options_.heartbeat) publish({{"type", "update"}, {"seconds", seconds_()}});
    tick_.set(clock_.now() + options_.tick, [this] { tick(); });
  }

  Clock& clock_;
  ServerOptions options_;
  View& view_;
  std::function<double()> seconds_;
  std::optional<asio::ssl::context> tls_;
  asio::basic_socket_acceptor<tcp, Executor> acceptor_;
  unsigned port_ = 0;
  Site site_;
  Changes changes_;
  std::list<std::shared_ptr<Visitor>> visitors_;
  std::vector<std::shared_ptr<Viewer>> viewers_;
  Time last_published_{};
  Alarm tick_;
  bool has_ended_ = false;
  Signal left_;
};

Server::Server(Clock& clock, ServerOptions options, View& view, std::function<double()> seconds, Site site)
    : core_(std::make_shared<Core>(clock, std::move(options), view, std::move(seconds), std::move(site))) {
  core_->start();
}

Server::~Server() { core_->abandon(); }

unsigned Server::port() const { return core_->port(); }

void Server::flush() { core_->flush(); }

Task<> Server::close() { return Core::close(core_); }

}  // namespace rookery::dashboard
