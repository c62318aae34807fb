#include "net/connector.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <fmt/format.h>

namespace rookery::net {

std::string_view name_of(Way way) {
  return way == Way::kDirect ? "direct" : way == Way::kReverse ? "reverse" : "relay";
}

// Lives until its loops have ended, which they do with their hosts.
class Connector::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Clock& clock, Host& host, std::vector<std::string> own_addresses, Doorkeeper doorkeeper)
      : clock_(clock),
        host_(host),
        own_addresses_(std::move(own_addresses)),
        doorkeeper_(std::move(doorkeeper)),
        patience_(host.options().handshake) {}

  void start() { spawn(gather(shared_from_this(), host_.accept(), &host_, Way::kDirect)); }

  void use_relay(std::shared_ptr<Link> relay) {
    relayed_.reset();
    guest_.reset();
    HostOptions options = host_.options();
    options.encrypt = true;  // what passes a third peer is for nobody else's eyes
    options.lanes = 1;
    const std::weak_ptr<Core> weak = weak_from_this();
    guest_ = std::make_unique<RelayGuest>(clock_, std::move(relay), [weak](const wire::Contact& contact) {
      if (const auto self = weak.lock()) self->please_dial(contact);
    });
    relayed_ = std::make_unique<Host>(clock_, guest_->transport(), host_.identity(), std::move(options));
    relayed_->listen("relay", doorkeeper_);
    spawn(gather(shared_from_this(), relayed_->accept(), relayed_.get(), Way::kRelay));
  }

  void stop_accepting() {
    ++stops_;
    arrived_.notify();
  }

  void close() {
    closed_ = true;
    waiting_.clear();
    relayed_.reset();
    guest_.reset();
    arrived_.notify();
  }

  static Task<Connection> connect(std::shared_ptr<Core> self, wire::Contact other) {
    const Fingerprint key(other.fingerprint);
    std::string tried;
    const auto failed = [&](std::string_view what, const Error& error) {
      const auto* of_link = dynamic_cast<const LinkError*>(&error);
      tried += fmt::format("{}{} ({})", tried.empty() ? "" : "; ", what, of_link ? of_link->text() : error.what());
    };
    for (const std::string& address : other.addresses) {
      if (self->closed_) break;
      try {
        auto dialling = self->host_.dial(address, key);
        Meeting meeting = co_await std::move(dialling);
        co_return Connection{.meeting = std::move(meeting), .way = Way::kDirect};
      } catch (const Error& error) {  // also an address that is none
        failed(address, error);
      }
    }
    if (other.addresses.empty()) tried = "it has no address";
    if (self->guest_ && !self->closed_ && !self->own_addresses_.empty()) {
      try {
        auto waiting = be_dialled(self, key);
        co_return co_await std::move(waiting);
      } catch (const LinkError& error) {
        failed("to be dialled by it", error);
      }
    }
    if (self->relayed_) {
      try {
        auto calling = self->relayed_->dial(key.text(), key);
        Meeting meeting = co_await std::move(calling);
        co_return Connection{.meeting = std::move(meeting), .way = Way::kRelay};
      } catch (const LinkError& error) {
        failed("through the relay", error);
      }
    }
    throw LinkError(Failure::kUnreachable, other.name, "cannot be reached: " + tried);
  }

  static Task<Connection> accept(std::shared_ptr<Core> self, Time deadline) {
    const std::uint64_t stops = self->stops_;
    while (self->waiting_.empty() && !self->ended_ && !self->closed_ && stops == self->stops_) {
      auto wait = self->arrived_.wait_until(self->clock_, deadline);
      const bool in_time = co_await std::move(wait);
      if (!in_time && self->waiting_.empty()) throw LinkError(Failure::kLate, "", "nobody came in time");
    }
    if (self->waiting_.empty()) throw LinkError(Failure::kClosed, "", "does not take part any more");
    Connection connection = std::move(self->waiting_.front());
    self->waiting_.pop_front();
    co_return connection;
  }

 private:
  static constexpr std::size_t kMaxDialBacks = 8;

  void spawn(Task<> task) { boost::asio::co_spawn(clock_.executor(), std::move(task), boost::asio::detached); }

  // What arrives at a host goes to whoever has asked to be dialled by that peer, or else to accept().
  static Task<> gather(std::shared_ptr<Core> self, Task<Meeting> next, Host* host, Way way) {
    try {
      for (;;) {
        Meeting meeting = co_await std::move(next);
        if (self->closed_) break;
        const auto expected = self->expected_.find(meeting.other.key);
        if (way == Way::kDirect && expected != self->expected_.end() && !expected->second) {
          expected->second = std::move(meeting);
        } else if (self->lets_in(meeting)) {
          self->waiting_.push_back({.meeting = std::move(meeting), .way = way});
        }
        self->arrived_.notify();
        next = host->accept();
      }
    } catch (const LinkError&) {
      if (way == Way::kDirect) self->ended_ = true;
    }
    self->arrived_.notify();
  }

  // Whoever dials the host directly has only been seen by the host's own doorkeeper.
  bool lets_in(const Meeting& meeting) const {
    try {
      if (doorkeeper_) doorkeeper_(meeting.other);
      return true;
    } catch (const LinkError& error) {
      meeting.link->close(error);
      return false;
    }
  }

  // Waits for the other to dial, until it says that it cannot, or long enough.
  static Task<Connection> be_dialled(std::shared_ptr<Core> self, Fingerprint key) {
    const Time deadline = self->clock_.now() + self->patience_;
    const bool alone = self->expected_.try_emplace(key).second;
    ROOKERY_CHECK(alone);
    auto answer = std::make_shared<std::optional<LinkError>>();
    self->spawn(ask(self, key, answer, deadline));
    for (bool in_time = true; in_time && !self->ended_ && !self->closed_ && !*answer && !self->expected_.at(key);) {
      auto wait = self->arrived_.wait_until(self->clock_, deadline);
      in_time = co_await std::move(wait);
    }
    std::optional<Meeting> meeting = std::move(self->expected_.at(key));
    self->expected_.erase(key);
    if (meeting) co_return Connection{.meeting = std::move(*meeting), .way = Way::kReverse};
    throw *answer ? LinkError(**answer) : LinkError(Failure::kLate, "", "did not come in time");
  }

  static Task<> ask(std::shared_ptr<Core> self, Fingerprint key, std::shared_ptr<std::optional<LinkError>> answer,
                    Time deadline) {
    auto asking = self->guest_->ask_to_dial(key, self->own_addresses_, deadline);
    *answer = co_await std::move(asking);
    self->arrived_.notify();
  }

  // Others name the addresses, so only a few are dialled at a time.
  void please_dial(const wire::Contact& contact) {
    const Fingerprint key(contact.fingerprint);
    if (dialling_back_.size() >= kMaxDialBacks || !dialling_back_.insert(key).second) {
      return guest_->could_not_dial(key, "dials others at the moment");
    }
    spawn(dial_back(shared_from_this(), contact));
  }

  static Task<> dial_back(std::shared_ptr<Core> self, wire::Contact contact) {
    const Fingerprint key(contact.fingerprint);
    auto trying = try_to_dial_back(self, contact, key);
    const std::string why = co_await std::move(trying);
    self->dialling_back_.erase(key);
    if (!why.empty() && self->guest_) self->guest_->could_not_dial(key, why);
  }

  // Why it was not possible; empty if it was.
  static Task<std::string> try_to_dial_back(std::shared_ptr<Core> self, const wire::Contact& contact, Fingerprint key) {
    std::string why = "it has no address";
    for (const std::string& address : contact.addresses) {
      if (self->closed_) co_return "does not take part any more";
      try {
        if (self->doorkeeper_) self->doorkeeper_(Guest{.name = contact.name, .key = key});
        auto dialling = self->host_.dial(address, key);
        Meeting meeting = co_await std::move(dialling);
        if (self->closed_) co_return "does not take part any more";
        if (self->doorkeeper_) self->doorkeeper_(meeting.other);  // as it calls itself
        self->waiting_.push_back({.meeting = std::move(meeting), .way = Way::kReverse});
        self->arrived_.notify();
        co_return "";
      } catch (const Error& error) {
        why = error.what();
      }
    }
    co_return why;
  }

  Clock& clock_;
  Host& host_;
  std::vector<std::string> own_addresses_;
  Doorkeeper doorkeeper_;
  Duration patience_;
  std::unique_ptr<RelayGuest> guest_;
  std::unique_ptr<Host> relayed_;
  std::map<Fingerprint, std::optional<Meeting>> expected_;  // those who were asked to dial, and their links
  std::set<Fingerprint> dialling_back_;                     // those who have asked for it
  std::deque<Connection> waiting_;
  bool ended_ = false, closed_ = false;
  std::uint64_t stops_ = 0;  // how often those who accept were stopped
  Signal arrived_;
};

Connector::Connector(Clock& clock, Host& host, std::vector<std::string> own_addresses, Doorkeeper doorkeeper)
    : core_(std::make_shared<Core>(clock, host, std::move(own_addresses), std::move(doorkeeper))) {
  core_->start();
}
Connector::~Connector() { core_->close(); }
void Connector::use_relay(std::shared_ptr<Link> relay) { core_->use_relay(std::move(relay)); }
Task<Connection> Connector::connect(wire::Contact other) { return Core::connect(core_, std::move(other)); }
Task<Connection> Connector::accept(Time deadline) { return Core::accept(core_, deadline); }
void Connector::stop_accepting() { core_->stop_accepting(); }

}  // namespace rookery::net
