#include "dashboard/site.h"

#include <algorithm>
#include <array>
#include <vector>

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/error.h"

namespace rookery::dashboard {
namespace {

constexpr std::string_view kLive = "/api/live";

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri "
    "'none'; "
    "form-action 'none'; frame-ancestors 'none'";

// Of the WebSocket; and what the token is offered behind, since browsers let a page say nothing else there.
constexpr std::string_view kProtocol = "rookery", kTokenProtocol = "rookery-token.";

bool are_equal(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string_view without_port(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos;
  return has_port ? host.substr(0, colon) : host;
}

Answer refusal(unsigned status, std::string why) { return {.status = status, .body = std::move(why) + "\n"}; }

Answer json_answer(const Json& json, unsigned status = 200) {
  return {
      .status = status, .type = "application/json", .body = json.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

std::optional<Command> command_of(std::string_view path) {
  static const std::map<std::string_view, Command> kCommands = {{"/api/pause", Command::kPause},
                                                                {"/api/resume", Command::kResume},
                                                                {"/api/checkpoint", Command::kCheckpoint},
                                                                {"/api/stop", Command::kStop}};
  const auto found = kCommands.find(path);
  return found == kCommands.end() ? std::nullopt : std::optional(found->second);
}

std::string_view path_of(const Request& request) {
  const std::string_view target = request.target;
  return target.substr(0, target.find('?'));
}

std::vector<std::string_view> offered_protocols(const Request& request) {
  std::vector<std::string_view> protocols;
  std::string_view left = request.field("sec-websocket-protocol");
  while (!left.empty()) {
    std::string_view one = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), one.size() + 1));
    one.remove_prefix(std::min(one.size(), one.find_first_not_of(' ')));
    protocols.push_back(one.substr(0, one.find(' ')));
  }
  return protocols;
}

}  // namespace

std::string_view Request::field(std::string_view name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? std::string_view() : std::string_view(found->second);
}

std::string new_token() {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) throw Error("no random numbers can be had");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

Site::Site(Options options, const Pages& pages, Obey obey)
    : options_(std::move(options)), pages_(pages), obey_(std::move(obey)) {}

bool Site::has_token(const Request& request) const {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view authorization = request.field("authorization");
  if (authorization.starts_with(kBearer)) return are_equal(authorization.substr(kBearer.size()), options_.token);
  return path_of(request) == kLive && std::ranges::any_of(offered_protocols(request), [&](std::string_view protocol) {
           return protocol.starts_with(kTokenProtocol) &&
                  are_equal(protocol.substr(kTokenProtocol.size()), options_.token);
         });
}

// Any other name may be somebody else's, who has made it lead here after their page was loaded.
bool Site::is_for_this_computer(const Request& request) const {
  std::string_view host = without_port(request.field("host"));
  if (host == "localhost") return true;
  const bool has_brackets = host.starts_with('[') && host.ends_with(']');
  if (has_brackets) host = host.substr(1, host.size() - 2);
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(std::string(host), error);
  return !error && address.is_loopback() && address.is_v6() == has_brackets;
}

// Who is no browser names no origin.
bool Site::is_of_this_site(const Request& request) const {
  const std::string_view origin = request.field("origin");
  const std::string own = fmt::format("{}://{}", options_.encrypted ? "https" : "http", request.field("host"));
  const std::string_view from = request.field("sec-fetch-site");
  return (origin.empty() || origin == own) && (from.empty() || from == "same-origin" || from == "none");
}

Answer Site::answer(const Request& request, View& view, double seconds) const {
  const auto decide = [&]() -> Answer {
    if (options_.open && !is_for_this_computer(request)) return refusal(403, "this is not known by that name here");
    const bool is_allowed = has_token(request);
    if (!options_.open && !is_allowed) return without_token(request);
    if (request.method == "POST") {
      if (!is_of_this_site(request)) return refusal(403, "another site has asked for this");
      return is_allowed ? post(request, view) : without_token(request);
    }
    if (request.method != "GET" && request.method != "HEAD") {
      Answer answer = refusal(405, "there is only GET, HEAD and POST");
      answer.fields["Allow"] = "GET, HEAD, POST";
      return answer;
    }
    return get(request, view, seconds);
  };
  Answer answer = decide();
  answer.fields["Content-Security-Policy"] = kPolicy;
  answer.fields["X-Content-Type-Options"] = "nosniff";
  answer.fields["X-Frame-Options"] = "DENY";
  answer.fields["Referrer-Policy"] = "no-referrer";
  answer.fields["Cross-Origin-Opener-Policy"] = "same-origin";
  answer.fields["Cross-Origin-Resource-Policy"] = "same-origin";
  answer.fields["Cache-Control"] = "no-store";
  return answer;
}

Answer Site::get(const Request& request, const View& view, double seconds) const {
  const std::string_view path = path_of(request);
  if (path == kLive) {
    if (!is_of_this_site(request)) return refusal(403, "another site has asked for this");
    const bool is_offered = std::ranges::count(offered_protocols(request), kProtocol) > 0;
    return {.status = 426,
            .body = "this is a WebSocket\n",
            .fields = {{"Upgrade", "websocket"}},
            .upgrades = true,
            .protocol = std::string(is_offered ? kProtocol : "")};
  }
  if (path == "/api/state") {
    Json state = request.target.ends_with("?brief") ? brief_of(view, seconds) : state_of(view, seconds);
    state["run"]["may_control"] = has_token(request);
    return json_answer(state);
  }
  if (path == "/metrics") {
    return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_of(view, seconds)};
  }
  auto found = page(path);
  return found ? std::move(*found) : refusal(404, "there is nothing of this name");
}

Answer Site::post(const Request& request, View& view) const {
  const auto command = command_of(path_of(request));
  if (!command) return refusal(404, "there is nothing of this name");
  if (const auto why_not = obey_(*command, view)) return json_answer({{"error", *why_not}}, 409);
  return json_answer(Json::object(), 202);
}

std::optional<Answer> Site::page(std::string_view path) const {
  const auto found = pages_.find(path == "/" ? "/index.html" : path);
  if (found == pages_.end()) return std::nullopt;
  return Answer{.type = std::string(found->second.type), .body = std::string(found->second.body)};
}

// The page shows nothing, but asks for the token. Browsers use what it is made of, which says nothing of the run, only
// if that was no error.
Answer Site::without_token(const Request& request) const {
  const bool is_question = request.method == "GET" || request.method == "HEAD";
  auto found = is_question ? page(path_of(request)) : std::nullopt;
  if (found && !found->type.starts_with("text/html")) return std::move(*found);
  Answer answer = found ? std::move(*found) : refusal(401, "this needs the token");
  answer.status = 401;
  answer.fields["WWW-Authenticate"] = "Bearer";
  return answer;
}

}  // namespace rookery::dashboard
