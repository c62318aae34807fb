#include "dashboard/site.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include "base/error.h"

namespace rookery::dashboard {
namespace {

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri "
    "'none'; "
    "form-action 'none'; frame-ancestors 'none'";

// Takes the token from where the browser does not send it by itself, and asks for a cookie that it does.
constexpr std::string_view kAskForToken = R"(
const enter = async (token) => {
  const answer = await fetch("/api/session", {method: "POST", headers: {Authorization: "Bearer " + token}});
  if (answer.ok) { history.replaceState(null, "", "/"); location.reload(); return; }
  document.getElementById("note").textContent = "That is not the token of this run.";
};
const known = new URLSearchParams(location.hash.slice(1)).get("token");
if (known) enter(known);
document.getElementById("form").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(document.getElementById("token").value.trim());
});
)";

std::string base64(const unsigned char* bytes, std::size_t size) {
  std::string text(4 * ((size + 2) / 3), '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes, static_cast<int>(size));
  return text;
}

std::string digest_of_script() {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(kAskForToken.data()), kAskForToken.size(), digest.data());
  return base64(digest.data(), digest.size());
}

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

std::string Site::cookie_name() const { return fmt::format("rookery_{}", options_.port); }

bool Site::has_token(const Request& request) const {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view authorization = request.field("authorization");
  if (authorization.starts_with(kBearer) && are_equal(authorization.substr(kBearer.size()), options_.token))
    return true;
  const std::string wanted = cookie_name() + "=";
  std::string_view cookies = request.field("cookie");
  while (!cookies.empty()) {
    std::string_view one = cookies.substr(0, cookies.find(';'));
    cookies.remove_prefix(std::min(cookies.size(), one.size() + 1));
    one.remove_prefix(std::min(one.size(), one.find_first_not_of(' ')));
    if (one.starts_with(wanted) && are_equal(one.substr(wanted.size()), options_.token)) return true;
  }
  return false;
}

// A name that leads here only since somebody else's page was loaded is not ours.
bool Site::is_for_this_computer(const Request& request) const {
  const std::string_view host = without_port(request.field("host"));
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
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
    if (!options_.open && !is_allowed) return without_token();
    if (request.method == "POST") {
      if (!is_of_this_site(request)) return refusal(403, "another site has asked for this");
      return is_allowed ? post(request, view) : without_token();
    }
    if (request.method != "GET" && request.method != "HEAD") {
      Answer answer = refusal(405, "there is only GET, HEAD and POST");
      answer.fields["Allow"] = "GET, HEAD, POST";
      return answer;
    }
    return get(request, view, seconds);
  };
  Answer answer = decide();
  answer.fields.try_emplace("Content-Security-Policy", kPolicy);
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
  if (path == "/api/live") {
    if (!is_of_this_site(request)) return refusal(403, "another site has asked for this");
    return {.status = 426, .body = "this is a WebSocket\n", .fields = {{"Upgrade", "websocket"}}, .upgrades = true};
  }
  if (path == "/api/state") {
    Json state = request.target.ends_with("?brief") ? brief_of(view, seconds) : state_of(view, seconds);
    state["run"]["may_control"] = has_token(request);
    return json_answer(state);
  }
  if (path == "/metrics") {
    return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_of(view, seconds)};
  }
  const auto page = pages_.find(path == "/" ? "/index.html" : path);
  if (page == pages_.end()) return refusal(404, "there is nothing of this name");
  return {.type = std::string(page->second.type), .body = std::string(page->second.body)};
}

Answer Site::post(const Request& request, View& view) const {
  const std::string_view path = path_of(request);
  if (path == "/api/session") {
    const std::string cookie = fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict{}", cookie_name(), options_.token,
                                           options_.encrypted ? "; Secure" : "");
    return {.status = 204, .fields = {{"Set-Cookie", cookie}}};
  }
  const auto command = command_of(path);
  if (!command) return refusal(404, "there is nothing of this name");
  if (const auto why_not = obey_(*command, view)) return json_answer({{"error", *why_not}}, 409);
  return json_answer(Json::object(), 202);
}

Answer Site::without_token() const {
  Answer answer{.status = 401, .type = "text/html; charset=utf-8"};
  answer.fields["WWW-Authenticate"] = "Bearer";
  answer.fields["Content-Security-Policy"] = fmt::format(
      "default-src 'none'; script-src 'sha256-{}'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
      "frame-ancestors 'none'",
      digest_of_script());
  answer.body = fmt::format(
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>Rookery</title><main><h1>Rookery</h1><p>Open the address that was printed "
      "when the run began, or enter its token.</p><form id=\"form\"><label for=\"token\">Token</label> <input "
      "id=\"token\" autocomplete=\"off\"> <button>Enter</button></form><p id=\"note\" role=\"status\"></p></main>"
      "<script>{}</script></html>",
      kAskForToken);
  return answer;
}

}  // namespace rookery::dashboard
