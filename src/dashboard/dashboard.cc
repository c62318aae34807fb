#include "dashboard/dashboard.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/loop_thread.h"
#include "dashboard/certificate.h"
#include "dashboard/entrance.h"
#include "dashboard/server.h"

namespace rookery::dashboard {
namespace {

constexpr std::uintmax_t kMostCertificateBytes = 1 << 20;

struct Where {
  std::string host;
  bool is_here = false;  // for this computer alone
};

Where where(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  if (colon == std::string::npos) throw InputError("dashboard.listen: '{}' is not HOST:PORT", listen);
  std::string host = listen.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  return {host, error ? host == "localhost" : address.is_loopback()};
}

bool is_everywhere(const std::string& host) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  return !error && address.is_unspecified();
}

// Under which names others find it.
std::vector<std::string> hosts_of(const DashboardOptions& options, const std::string& host) {
  std::vector<std::string> hosts;
  if (options.dialable && is_everywhere(host)) hosts = options.dialable(host);
  if (hosts.empty()) hosts.push_back(host);
  return hosts;
}

Certificate certificate_for(const DashboardOptions& options, std::vector<std::string> hosts) {
  if (options.certificate_file.empty() != options.key_file.empty()) {
    throw InputError("dashboard.certificate and dashboard.key belong together; give both or none");
  }
  if (options.certificate_file.empty()) {
    for (const char* own : {"localhost", "127.0.0.1"}) {
      if (std::ranges::find(hosts, own) == hosts.end()) hosts.emplace_back(own);
    }
    return self_signed(hosts);
  }
  return {read_file(options.certificate_file, kMostCertificateBytes),
          read_file(options.key_file, kMostCertificateBytes)};
}

// At the same port as before, if any will do.
void serve_where_it_was(const std::string& listen, const std::optional<Entrance>& before,
                        const std::function<void(const std::string& listen)>& serve) {
  if (before && listen.ends_with(":0")) {
    try {
      return serve(fmt::format("{}:{}", listen.substr(0, listen.size() - 2), before->port));
    } catch (const InputError&) {
      // Somebody else is there now.
    }
  }
  serve(listen);
}

}  // namespace

// What there is on its thread.
struct Dashboard::Core {
  View view{};
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::unique_ptr<Server> server{};
  LoopThread loop{};

  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }

  // There, and until it is done.
  void call(std::function<Task<>()> work) {
    std::promise<void> done;
    boost::asio::co_spawn(loop.executor(), std::move(work), [&done](std::exception_ptr failure) {
      failure ? done.set_exception(failure) : done.set_value();
    });
    done.get_future().get();
  }
};

Dashboard::Dashboard(DashboardOptions options, Site::Obey obey) : core_(std::make_unique<Core>()) {
  const Where at = where(options.listen);
  const std::vector<std::string> hosts = hosts_of(options, at.host);
  const bool is_encrypted = !at.is_here || !options.certificate_file.empty();
  const auto before = kept_entrance(options.entrance_file);
  Certificate certificate;
  if (is_encrypted) {
    const bool is_made_up = options.certificate_file.empty() && options.key_file.empty();
    const bool is_known = before && is_made_up && !before->certificate.certificate.empty() && before->hosts == hosts;
    certificate = is_known ? before->certificate : certificate_for(options, hosts);
    fingerprint_ = fingerprint_of(certificate.certificate);
  }
  const std::string token = before ? before->token : new_token();
  core_->view.run = options.run;
  const auto serve = [&](const std::string& listen) {
    core_->call([&]() -> Task<> {
      Site site({.token = token, .open = at.is_here, .encrypted = is_encrypted}, built_in_pages(), Site::Obey(obey));
      core_->server = std::make_unique<Server>(
          core_->loop.clock(),
          ServerOptions{.listen = listen, .certificate = certificate.certificate, .key = certificate.key}, core_->view,
          [core = core_.get()] { return core->seconds(); }, std::move(site));
      co_return;
    });
  };
  serve_where_it_was(options.listen, before, serve);
  if (!options.entrance_file.empty()) {
    const bool is_made_up = options.certificate_file.empty();
    keep({.port = static_cast<std::uint16_t>(core_->server->port()),
          .token = token,
          .certificate = is_made_up ? certificate : Certificate{},
          .hosts = hosts},
         options.entrance_file);
  }
  for (const std::string& host : hosts) {
    const std::string shown = host.find(':') != std::string::npos ? fmt::format("[{}]", host) : host;
    urls_.push_back(fmt::format("{}://{}:{}/#token={}{}", is_encrypted ? "https" : "http", shown, core_->server->port(),
                                token, is_encrypted ? "&certificate=" + fingerprint_ : ""));
  }
}

Dashboard::~Dashboard() {
  core_->call([this]() -> Task<> {
    auto closing = core_->server->close();
    co_await std::move(closing);
    core_->server.reset();
  });
}

double Dashboard::seconds() const { return core_->seconds(); }

Task<std::string> Dashboard::brief() {
  const auto task = [](Core& core) -> Task<std::string> {
    co_return brief_of(core.view, core.seconds()).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  return core_->loop.run(task(*core_));
}

void Dashboard::show(std::function<void(View& view, double seconds)> change) {
  boost::asio::post(core_->loop.executor(), [core = core_.get(), change = std::move(change), at = core_->seconds()] {
    change(core->view, at);
  });
}

}  // namespace rookery::dashboard
