#include "dashboard/entrance.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace rookery::dashboard {
namespace {

using Json = nlohmann::ordered_json;

constexpr Bytes kMostBytes = 1 << 20;
constexpr std::size_t kTokenDigits = 32;

}  // namespace

void keep(const Entrance& entrance, const std::filesystem::path& file) {
  const Json object = {{"port", entrance.port},
                       {"token", entrance.token},
                       {"certificate", entrance.certificate.certificate},
                       {"key", entrance.certificate.key},
                       {"hosts", entrance.hosts}};
  replace_private_file(file, object.dump(2) + "\n");
}

std::optional<Entrance> kept_entrance(const std::filesystem::path& file) try {
  if (!std::filesystem::exists(file)) return std::nullopt;
  const Json object = Json::parse(read_file(file, kMostBytes));
  Entrance entrance{.port = object.at("port").get<std::uint16_t>(),
                    .token = object.at("token").get<std::string>(),
                    .certificate = {.certificate = object.at("certificate").get<std::string>(),
                                    .key = object.at("key").get<std::string>()},
                    .hosts = object.at("hosts").get<std::vector<std::string>>()};
  if (!entrance.certificate.certificate.empty()) fingerprint_of(entrance.certificate.certificate);  // or it is none
  if (entrance.token.size() != kTokenDigits) return std::nullopt;
  return entrance;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace rookery::dashboard
