#include "net/host.h"

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <set>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <spdlog/spdlog.h>

#include "net/internal/handshake.h"
#include "net/shaped_pipe.h"
#include "net/shm/same_host.h"

namespace rookery::net {

using internal::Proved;
using Pipes = std::vector<std::unique_ptr<Pipe>>;

// Lives until its loops have ended, which they do soon after close().
class Host::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Clock& clock, Transport& transport, Identity identity, HostOptions options)
      : clock_(clock), transport_(transport), identity_(std::move(identity)), options_(std::move(options)) {
    if (!wire::is_name(options_.name)) {
      throw InputError("'{}' is no name for a peer; use up to {} letters, digits and -_.@", options_.name,
                       wire::kMaxNameBytes);
    }
    if (options_.share_memory) host_id_ = same_host_id();
  }

  const Identity& identity() const { return identity_; }
  const HostOptions& options() const { return options_; }
  const std::string& address() const { return listener_->address(); }

  void listen(const std::string& address, Doorkeeper doorkeeper) {
    ROOKERY_CHECK(!listener_);
    listener_ = transport_.listen(address);
    doorkeeper_ = std::move(doorkeeper);
    spawn(serve(shared_from_this()));
  }

  void close() {
    closed_ = true;
    if (listener_) listener_->close();
    pending_.clear();
    waiting_.clear();
    arrived_.notify();
  }

  static Task<Meeting> accept(std::shared_ptr<Core> self) {
    while (self->waiting_.empty() && !self->closed_) {
      auto wait = self->arrived_.wait();
      co_await std::move(wait);
    }
    if (self->closed_) throw LinkError(Failure::kClosed, self->options_.name, "does not take part any more");
    Meeting meeting = std::move(self->waiting_.front());
    self->waiting_.pop_front();
    co_return meeting;
  }

  // Somebody else may be at one of the addresses, so a refusal says little about the others; but it says more than that
  // nobody answers.
  static Task<Meeting> dial_ticket(std::shared_ptr<Core> self, wire::Ticket ticket) {
    std::optional<LinkError> failure;
    for (const std::string& address : ticket.addresses) {
      try {
        auto dialling = dial(self, address, Fingerprint(ticket.fingerprint), ticket.secret);
        co_return co_await std::move(dialling);
      } catch (const LinkError& error) {
        if (!failure || failure->failure() != Failure::kRefused) failure = error;
      } catch (const InputError& error) {
        if (!failure) failure = LinkError(Failure::kUnreachable, address, error.what());
      }
    }
    throw LinkError(*failure);
  }

  static Task<Meeting> dial(std::shared_ptr<Core> self, std::string address, std::optional<Fingerprint> key,
                            std::optional<TicketSecret> ticket) {
    try {
      auto dialling = dial_lanes(self, address, key, ticket);
      co_return co_await std::move(dialling);
    } catch (const LinkError& error) {
      throw LinkError(error.failure(), error.peer().empty() ? address : error.peer(), error.text());
    }
  }

 private:
  static constexpr std::size_t kMaxLinesPerSecond = 20;

  // A link whose lanes have not all come yet.
  struct Pending {
    Guest guest;
    Pipes lanes;
    std::unique_ptr<Alarm> patience;
  };
  using PendingKey = std::pair<Fingerprint, wire::LinkToken>;

  // Somebody who has dialled, and has not proved anything yet. The pipe is the bare one, which lasts as long as that.
  struct Unproved {
    std::uint64_t number;
    std::string address;
    Pipe* pipe;
  };

  std::uint64_t add_unproved(Pipe& pipe) {
    unproved_.push_back({++received_, pipe.remote(), &pipe});
    return received_;
  }
  void remove_unproved(std::uint64_t number) {
    std::erase_if(unproved_, [&](const Unproved& u) { return u.number == number; });
  }

  void spawn(Task<> task) { boost::asio::co_spawn(clock_.executor(), std::move(task), boost::asio::detached); }

  std::optional<TicketSecret> ticket_secret() const {
    return options_.admission ? std::optional(options_.admission->secret) : std::nullopt;
  }

  wire::Hello hello(const wire::LinkToken& link, std::uint32_t lane, std::uint32_t lanes) const {
    wire::Hello hello{.name = options_.name, .link = link, .lane = lane, .lanes = lanes, .host = host_id_};
    hello.public_key = identity_.public_key();
    fill_with_secret(hello.nonce);
    return hello;
  }

  Meeting meet(Guest guest, Pipes pipes) {
    if (!options_.shaping.perfect()) {
      const auto line = std::make_shared<Line>(options_.shaping, links_made_);
      for (auto& pipe : pipes) pipe = make_shaped_pipe(clock_, std::move(pipe), line);
    }
    ++links_made_;
    auto link = make_link(clock_, std::move(pipes),
                          {.peer = guest.name, .heartbeat = options_.heartbeat, .silence = options_.silence});
    return {.link = std::move(link), .other = std::move(guest)};
  }

  // Dialling.

  static Task<Meeting> dial_lanes(std::shared_ptr<Core> self, std::string address, std::optional<Fingerprint> key,
                                  std::optional<TicketSecret> ticket) {
    const Time deadline = self->clock_.now() + self->options_.handshake;
    wire::LinkToken token;
    fill_with_secret(token);
    Pipes pipes;
    Guest guest;
    for (std::uint32_t lane = 0; lane < self->options_.lanes; ++lane) {
      auto dialling = self->transport_.dial(address, deadline);
      auto pipe = co_await std::move(dialling);
      auto introducing =
          internal::introduce_dialler(self->clock_, pipe, self->identity_, self->options_.encrypt,
                                      self->hello(token, lane, self->options_.lanes), key, ticket, deadline);
      const Proved proved = co_await std::move(introducing);
      auto welcoming = welcome(self->clock_, *pipe, deadline);
      const wire::Welcome welcomed = co_await std::move(welcoming);
      guest = proved.guest;
      key = guest.key;
      if (!welcomed.shared_memory.empty()) {
        std::array<std::byte, 16> shared_token{};
        std::ranges::copy(welcomed.token, shared_token.begin());
        auto picking_up = pick_up_shared_memory(self->clock_, welcomed.shared_memory, shared_token, deadline);
        pipes.push_back(co_await std::move(picking_up));
        break;
      }
      pipes.push_back(std::move(pipe));
    }
    co_return self->meet(std::move(guest), std::move(pipes));
  }

  static Task<wire::Welcome> welcome(Clock& clock, Pipe& pipe, Time deadline) {
    Alarm alarm(clock);
    alarm.set(deadline, [&] { pipe.close(); });
    auto reading = internal::read_handshake<wire::Welcome>(pipe);
    co_return co_await std::move(reading);
  }

  // Listening.

  static Task<> serve(std::shared_ptr<Core> self) {
    try {
      while (!self->closed_) {
        auto accepting = self->listener_->accept();
        auto pipe = co_await std::move(accepting);
        self->make_room(pipe->remote());
        self->spawn(receive(self, std::move(pipe)));
      }
    } catch (const LinkError& closed) {
      spdlog::debug("{}", closed.what());
    }
  }

  void make_room(const std::string& address) {
    const auto close_oldest = [this](auto belongs) {
      const auto oldest = std::ranges::find_if(unproved_, belongs);
      if (oldest == unproved_.end()) return;
      oldest->pipe->close();  // whoever serves it notices
      unproved_.erase(oldest);
    };
    const auto from_there = [&](const Unproved& u) { return u.address == address; };
    const auto count = static_cast<std::size_t>(std::ranges::count_if(unproved_, from_there));
    if (count >= options_.unproved_by_address) close_oldest(from_there);
    if (unproved_.size() >= options_.unproved) close_oldest([](const Unproved&) { return true; });
  }

  // Everything that somebody who dials can do wrong ends here, with a line in the log.
  static Task<> receive(std::shared_ptr<Core> self, std::unique_ptr<Pipe> pipe) {
    const std::uint64_t number = self->add_unproved(*pipe);
    const Time deadline = self->clock_.now() + self->options_.handshake;
    std::optional<LinkError> failure;
    std::string name = "somebody";
    const std::string address = pipe->remote();
    try {
      auto introducing = internal::introduce_listener(self->clock_, pipe, self->identity_, self->options_.encrypt,
                                                      self->hello({}, 0, 1), self->ticket_secret(), deadline);
      Proved proved = co_await std::move(introducing);
      self->remove_unproved(number);
      proved.guest.address = address;
      name = proved.guest.name;
      self->admit(proved);
      auto welcoming = self->welcome_guest(self, proved, pipe, deadline);
      co_await std::move(welcoming);
    } catch (const LinkError& error) {
      failure = error;
    } catch (const Error& error) {  // something is wrong here, and not with the guest
      failure = LinkError(Failure::kClosed, "", error.what());
    }
    self->remove_unproved(number);
    if (!failure) co_return;
    self->log_refusal(name, address, failure->text());
    if (pipe) {
      auto refusing = refuse(self->clock_, *pipe, *failure);
      co_await std::move(refusing);
    }
  }

  // A line for each, but not so many that strangers could fill a disk with them.
  void log_refusal(std::string_view name, std::string_view address, std::string_view why) {
    if (clock_.now() >= log_pause_) {
      if (unlogged_ > 0) spdlog::warn("{} others were not let in", unlogged_);
      log_pause_ = clock_.now() + std::chrono::seconds(1);
      logged_ = unlogged_ = 0;
    }
    if (++logged_ > kMaxLinesPerSecond) {
      ++unlogged_;
    } else {
      spdlog::warn("{}{}{} was not let in: {}", name, address.empty() ? "" : " at ", address, why);
    }
  }

  static Task<> refuse(Clock& clock, Pipe& pipe, const LinkError& why) {
    Alarm alarm(clock);
    alarm.set(clock.now() + std::chrono::seconds(1), [&] { pipe.close(); });
    try {
      auto saying = internal::write_handshake(
          pipe, wire::Refusal{static_cast<std::uint16_t>(why.failure()), std::string(why.text())});
      co_await std::move(saying);
    } catch (const LinkError& gone) {
      spdlog::debug("nobody heard the refusal: {}", gone.text());
    }
  }

  void admit(const Proved& proved) const {
    if (closed_) throw LinkError(Failure::kRefused, "", "does not take part any more");
    if (proved.guest.key == identity_.fingerprint()) {
      throw LinkError(Failure::kRefused, "", "this peer's own key is used by another; every peer needs its own");
    }
    if (proved.guest.ticket && clock_.date() >= options_.admission->expires) {
      throw LinkError(Failure::kRefused, "", "the ticket has expired; ask for a new one");
    }
    if (connected_.contains(proved.guest.key)) {
      throw LinkError(Failure::kRefused, "", "a peer with this key is connected already");
    }
    if (doorkeeper_) doorkeeper_(proved.guest);
  }

  static Task<> welcome_guest(std::shared_ptr<Core> self, const Proved& proved, std::unique_ptr<Pipe>& pipe,
                              Time deadline) {
    const bool share = !self->host_id_.empty() && proved.hello.host == self->host_id_ && proved.hello.lane == 0;
    if (!share) {
      auto welcoming = internal::write_handshake(*pipe, wire::Welcome{});
      co_await std::move(welcoming);
      self->add_lane(proved, std::move(pipe));
      co_return;
    }
    SharedMemoryOffer offer(self->clock_);
    const wire::Bytes token(offer.token().begin(), offer.token().end());
    auto welcoming = internal::write_handshake(*pipe, wire::Welcome{offer.name(), token});
    co_await std::move(welcoming);
    auto handing_over = offer.hand_over(deadline);
    Pipes pipes;
    pipes.push_back(co_await std::move(handing_over));
    self->arrive(proved.guest, std::move(pipes));
  }

  void add_lane(const Proved& proved, std::unique_ptr<Pipe> pipe) {
    const PendingKey key{proved.guest.key, proved.hello.link};
    Pending& pending = pending_[key];
    if (pending.lanes.empty()) {
      pending.guest = proved.guest;
      pending.lanes.resize(proved.hello.lanes);
      pending.patience = std::make_unique<Alarm>(clock_);
      // Erased by a task of its own: an alarm must not destroy itself while it rings.
      pending.patience->set(clock_.now() + options_.handshake, [this, key] { spawn(forget(shared_from_this(), key)); });
    }
    if (proved.hello.lanes != pending.lanes.size() || pending.lanes[proved.hello.lane]) {
      throw LinkError(Failure::kProtocol, "", "the lanes of a link do not fit together");
    }
    pending.lanes[proved.hello.lane] = std::move(pipe);
    if (!std::ranges::all_of(pending.lanes, [](const auto& lane) { return lane != nullptr; })) return;
    Pipes pipes = std::move(pending.lanes);
    pending_.erase(key);
    arrive(proved.guest, std::move(pipes));
  }

  static Task<> forget(std::shared_ptr<Core> self, PendingKey key) {
    self->pending_.erase(key);
    co_return;
  }

  void arrive(const Guest& guest, Pipes pipes) {
    if (connected_.contains(guest.key)) {  // two links that began at the same time
      throw LinkError(Failure::kRefused, "", "a peer with this key is connected already");
    }
    if (waiting_.size() >= options_.unaccepted) waiting_.pop_front();
    waiting_.push_back(meet(guest, std::move(pipes)));
    connected_.insert(guest.key);
    spawn(watch(shared_from_this(), guest.key, waiting_.back().link->ended()));
    arrived_.notify();
  }

  static Task<> watch(std::shared_ptr<Core> self, Fingerprint key, Task<LinkError> ended) {
    const LinkError why = co_await std::move(ended);
    spdlog::debug("{}", why.what());
    self->connected_.erase(key);
  }

  Clock& clock_;
  Transport& transport_;
  Identity identity_;
  HostOptions options_;
  std::string host_id_;
  std::unique_ptr<Listener> listener_;
  Doorkeeper doorkeeper_;
  bool closed_ = false;
  std::list<Unproved> unproved_;  // from the oldest on
  std::uint64_t received_ = 0;    // connections so far
  Time log_pause_{};              // until then lines are counted
  std::size_t logged_ = 0, unlogged_ = 0;
  std::uint64_t links_made_ = 0;
  std::map<PendingKey, Pending> pending_;
  std::set<Fingerprint> connected_;  // those who have dialled, while their links last
  std::deque<Meeting> waiting_;
  Signal arrived_;
};

Host::Host(Clock& clock, Transport& transport, Identity identity, HostOptions options)
    : core_(std::make_shared<Core>(clock, transport, std::move(identity), std::move(options))) {}
Host::~Host() { core_->close(); }

const Identity& Host::identity() const { return core_->identity(); }
const HostOptions& Host::options() const { return core_->options(); }
void Host::listen(const std::string& address, Doorkeeper doorkeeper) { core_->listen(address, std::move(doorkeeper)); }
const std::string& Host::address() const { return core_->address(); }
Task<Meeting> Host::accept() { return Core::accept(core_); }
Task<Meeting> Host::dial(std::string address, std::optional<Fingerprint> key, std::optional<TicketSecret> ticket) {
  return Core::dial(core_, std::move(address), key, ticket);
}
Task<Meeting> Host::dial(wire::Ticket ticket) { return Core::dial_ticket(core_, std::move(ticket)); }
void Host::close() { core_->close(); }

}  // namespace rookery::net
