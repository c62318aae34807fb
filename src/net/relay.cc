#include "net/relay.h"

#include <algorithm>
#include <deque>
#include <list>
#include <map>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <spdlog/spdlog.h>

#include "net/internal/channel_pipe.h"
#include "net/line.h"
#include "net/purpose.h"
#include "wire/bytes.h"

namespace rookery::net {
namespace {

using internal::kChannelPipeBudget;

// What relay and guest say to each other. `whom` is a fingerprint, 32 bytes.
enum Talk : std::uint32_t {
  kCall = 1,          // guest: whom; tag: index of the channel that carries the call, even, larger than the last
  kCalled = 2,        // relay: the caller's contact; tag: index, odd
  kAskToDial = 3,     // guest: whom, and then its own contact
  kPleaseDial = 4,    // relay: the contact of the guest that asks
  kCouldNotDial = 5,  // guest: whom (that had asked), and then why; relay: whom (that was asked), and then why
};

constexpr std::size_t kMaxWhy = 512;

ChannelId talk_channel() { return {.purpose = purpose::kRelayTalk}; }
ChannelId call_channel(std::uint64_t index) {
  return {.purpose = purpose::kRelayBytes, .index = static_cast<std::uint32_t>(index)};
}

Fingerprint take_fingerprint(ConstBytes& bytes) {
  Fingerprint::Bytes whom;
  if (bytes.size() < whom.size()) throw LinkError(Failure::kProtocol, "", "names nobody to the relay");
  std::ranges::copy(bytes.first(whom.size()), whom.begin());
  bytes = bytes.subspan(whom.size());
  return Fingerprint(whom);
}

wire::Contact take_contact(ConstBytes bytes) {
  try {
    return wire::decode_contact(bytes);
  } catch (const wire::WireError& error) {
    throw LinkError(Failure::kProtocol, "", error.what());
  }
}

std::string take_text(ConstBytes bytes) {
  bytes = bytes.first(std::min(bytes.size(), kMaxWhy));
  return wire::printable({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::vector<std::byte> after(const Fingerprint& whom, ConstBytes rest = {}) {
  std::vector<std::byte> bytes(whom.bytes().begin(), whom.bytes().end());
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

std::vector<std::byte> after(const Fingerprint& whom, const std::string& text) {
  return after(whom, std::as_bytes(std::span(text)).first(std::min(text.size(), kMaxWhy)));
}

// A channel to talk on, whose sends nobody waits for.
class Talker {
 public:
  explicit Talker(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}

  // False if the other end has not heard much of what was said before: then this is not said.
  [[nodiscard]] bool say(Talk type, std::uint64_t tag, std::vector<std::byte> payload) {
    while (!said_.empty() && said_.front().send.ended()) said_.pop_front();
    if (said_.size() == kMaxSaid) return false;
    Said& said = said_.emplace_back();
    said.payload = std::move(payload);
    said.send.label = {.type = type, .tag = tag};
    said.send.payload = said.payload;
    channel_->post(said.send);
    return true;
  }

  Channel& channel() { return *channel_; }

 private:
  static constexpr std::size_t kMaxSaid = 64;

  struct Said {
    Send send;
    std::vector<std::byte> payload;
  };

  std::deque<Said> said_;
  std::unique_ptr<Channel> channel_;  // goes first
};

}  // namespace

// Lives until its loops have ended, which they do with their links.
class Relay::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Clock& clock, RelayOptions options)
      : clock_(clock), options_(options), line_({.bandwidth = options.bandwidth}, 0) {}

  void serve(const std::shared_ptr<Link>& link, const Guest& guest) {
    auto entry = std::make_shared<Entry>(guest, link, link->open(talk_channel()));
    guests_[guest.key] = entry;
    spawn(listen(shared_from_this(), entry));
  }

  void close() {
    for (const auto& [key, entry] : guests_) entry->talker.channel().close();
  }

  const RelayStatistics& statistics() const { return statistics_; }

 private:
  struct Entry {
    Entry(Guest g, const std::shared_ptr<Link>& l, std::unique_ptr<Channel> talk)
        : guest(std::move(g)), link(l), talker(std::move(talk)) {}

    Guest guest;
    std::weak_ptr<Link> link;
    Talker talker;
    std::size_t calls = 0;        // that it has made, now
    std::uint64_t last_made = 0;  // index of its last call, even
    std::uint64_t last_put = 1;   // of the last call to it, odd
  };

  void spawn(Task<> task) { boost::asio::co_spawn(clock_.executor(), std::move(task), boost::asio::detached); }

  static Task<> listen(std::shared_ptr<Core> self, std::shared_ptr<Entry> entry) {
    try {
      for (;;) {
        auto receiving = entry->talker.channel().receive();
        const Message message = co_await std::move(receiving);
        self->hear(entry, message);
        co_await yield();  // what is said to others gets away first
      }
    } catch (const LinkError& error) {
      const auto link = entry->link.lock();
      if (error.failure() == Failure::kProtocol && link && !link->has_ended()) {
        spdlog::warn("{} {}", entry->guest.name, error.text());
        link->close(error);
      }
    }
    const auto known = self->guests_.find(entry->guest.key);
    if (known != self->guests_.end() && known->second == entry) self->guests_.erase(known);
  }

  void hear(const std::shared_ptr<Entry>& from, const Message& message) {
    ConstBytes payload = message.payload;
    const Fingerprint whom = take_fingerprint(payload);
    const auto found = guests_.find(whom);
    const std::shared_ptr<Entry> to = found == guests_.end() ? nullptr : found->second;
    switch (message.label.type) {
      case kCall:
        return call(from, to, message.label.tag);
      case kAskToDial: {
        wire::Contact contact = take_contact(payload);
        contact.name = from->guest.name;  // as it has been proved
        contact.fingerprint = from->guest.key.bytes();
        const bool asked = to && to->talker.say(kPleaseDial, 0, wire::encode(contact));
        const std::string why = to ? "is asked too much at the moment" : "is not connected to the relay";
        if (!asked && !from->talker.say(kCouldNotDial, 0, after(whom, why))) {
          throw LinkError(Failure::kProtocol, "", "does not listen to the relay");
        }
        return;
      }
      case kCouldNotDial:
        // Without it, whoever has asked waits for its deadline.
        if (to) static_cast<void>(to->talker.say(kCouldNotDial, 0, after(from->guest.key, take_text(payload))));
        return;
      default:
        throw LinkError(Failure::kProtocol, "", "says something to the relay that means nothing");
    }
  }

  void call(const std::shared_ptr<Entry>& from, const std::shared_ptr<Entry>& to, std::uint64_t index) {
    if (index % 2 != 0 || index <= from->last_made || index > 0xfffffffeu) {
      throw LinkError(Failure::kProtocol, "", "numbers its calls in the wrong order");
    }
    from->last_made = index;
    const auto caller_link = from->link.lock(), callee_link = to ? to->link.lock() : nullptr;
    if (!caller_link) return;
    auto caller = caller_link->open(call_channel(index), kChannelPipeBudget);
    const auto refuse = [&](const char* why) {
      ++statistics_.refused;
      caller->close(LinkError(Failure::kUnreachable, "", why));
    };
    if (!callee_link || to == from) return refuse("is not connected to the relay");
    if (statistics_.running >= options_.calls) return refuse("the relay has too many calls already");
    if (from->calls >= options_.calls_by_guest) return refuse("has as many calls through the relay as are allowed");
    const wire::Contact contact{.name = from->guest.name, .fingerprint = from->guest.key.bytes()};
    if (!to->talker.say(kCalled, to->last_put + 2, wire::encode(contact))) return refuse("is called too often");
    to->last_put += 2;
    auto callee = callee_link->open(call_channel(to->last_put), kChannelPipeBudget);
    ++statistics_.calls;
    ++statistics_.running;
    ++from->calls;
    spawn(carry(shared_from_this(), from, std::move(caller), std::move(callee)));
  }

  static Task<> carry(std::shared_ptr<Core> self, std::shared_ptr<Entry> from, std::unique_ptr<Channel> caller,
                      std::unique_ptr<Channel> callee) {
    TaskGroup group(self->clock_.executor());
    group.spawn(pump(*self, *caller, *callee));
    group.spawn(pump(*self, *callee, *caller));
    auto joined = group.join();
    co_await std::move(joined);
    --self->statistics_.running;
    --from->calls;
  }

  // Whichever end goes, the other is told.
  static Task<> pump(Core& self, Channel& in, Channel& out) {
    try {
      for (;;) {
        auto receiving = in.receive();
        const Message message = co_await std::move(receiving);
        self.statistics_.bytes += message.payload.size();
        const Time departure = self.line_.send(self.clock_.now(), message.payload.size()).departure;
        if (departure > self.clock_.now()) {
          auto waiting = self.clock_.sleep_until(departure);
          co_await std::move(waiting);
        }
        auto sending = out.send(message.label, message.payload);
        co_await std::move(sending);
      }
    } catch (const LinkError& error) {
      in.close(error);
      out.close(error);
    }
  }

  Clock& clock_;
  RelayOptions options_;
  Line line_;
  std::map<Fingerprint, std::shared_ptr<Entry>> guests_;
  RelayStatistics statistics_;
};

Relay::Relay(Clock& clock, RelayOptions options) : core_(std::make_shared<Core>(clock, options)) {}
Relay::~Relay() { core_->close(); }
void Relay::serve(const std::shared_ptr<Link>& link, const Guest& guest) { core_->serve(link, guest); }
RelayStatistics Relay::statistics() const { return core_->statistics(); }

class RelayGuest::Core final : public Transport, public std::enable_shared_from_this<Core> {
 public:
  Core(Clock& clock, std::shared_ptr<Link> link, DialRequest on_request)
      : clock_(clock),
        link_(std::move(link)),
        on_request_(std::move(on_request)),
        talker_(link_->open(talk_channel())) {}

  std::unique_ptr<Listener> listen(const std::string& /*all calls to this guest*/) override {
    return std::make_unique<CallListener>(shared_from_this());
  }

  // A call that is not put through is closed at once, with the reason; whoever reads finds out.
  Task<std::unique_ptr<Pipe>> dial(std::string address, Time /*deadline*/) override {
    const Fingerprint whom = Fingerprint::parse(address);
    if (!talker_.say(kCall, next_call_ + 2, after(whom))) {
      throw LinkError(Failure::kLate, link_->peer(), "the relay does not listen");
    }
    next_call_ += 2;
    auto channel = link_->open(call_channel(next_call_), kChannelPipeBudget);
    co_return internal::make_channel_pipe(clock_, std::move(channel));
  }

  static Task<> hear_all(std::shared_ptr<Core> self) {
    co_await yield();  // whoever has made this guest may want to listen first
    try {
      for (;;) {
        auto receiving = self->talker_.channel().receive();
        const Message message = co_await std::move(receiving);
        self->hear(message);
      }
    } catch (const LinkError& error) {
      self->failure_ = error;
    }
    self->changed_.notify();
  }

  void close() {
    closed_ = true;
    talker_.channel().close();
    called_.clear();
    on_request_ = nullptr;
    changed_.notify();
  }

  static Task<LinkError> ask_to_dial(std::shared_ptr<Core> self, Fingerprint whom, std::vector<std::string> addresses,
                                     Time deadline) {
    const wire::Contact own{.name = "me", .addresses = std::move(addresses)};  // the relay knows who asks
    if (!self->talker_.say(kAskToDial, 0, after(whom, wire::encode(own)))) {
      co_return LinkError(Failure::kLate, "", "the relay does not listen");
    }
    const auto request = self->requests_.insert(self->requests_.end(), Request{.whom = whom});
    bool in_time = true;
    while (!request->answer && !self->failure_ && !self->closed_ && in_time) {
      auto wait = self->changed_.wait_until(self->clock_, deadline);
      in_time = co_await std::move(wait);
    }
    const std::optional<std::string> answer = std::move(request->answer);
    self->requests_.erase(request);
    if (answer) co_return LinkError(Failure::kUnreachable, "", *answer);
    if (self->failure_) co_return *self->failure_;
    co_return LinkError(Failure::kLate, "", "did not come in time");
  }

  void could_not_dial(const Fingerprint& whom, const std::string& why) {
    static_cast<void>(talker_.say(kCouldNotDial, 0, after(whom, why)));  // or it waits for its deadline
  }

 private:
  static constexpr std::size_t kMaxCalled = 64;  // calls that nobody has taken yet

  // Somebody waits to be dialled.
  struct Request {
    Fingerprint whom;
    std::optional<std::string> answer{};  // why not
  };

  class CallListener final : public Listener {
   public:
    explicit CallListener(std::shared_ptr<Core> core) : core_(std::move(core)) { core_->listening_ = true; }
    ~CallListener() override { CallListener::close(); }

    Task<std::unique_ptr<Pipe>> accept() override { return called(core_, stopped_); }
    const std::string& address() const override { return address_; }
    void close() override {
      *stopped_ = true;
      core_->listening_ = false;
      core_->changed_.notify();
    }

   private:
    std::shared_ptr<Core> core_;
    std::shared_ptr<bool> stopped_ = std::make_shared<bool>(false);
    std::string address_ = "relay";
  };

  // The next call to this guest. Throws LinkError when there will be none.
  static Task<std::unique_ptr<Pipe>> called(std::shared_ptr<Core> self, std::shared_ptr<const bool> stopped) {
    while (self->called_.empty() && !self->failure_ && !self->closed_ && !*stopped) {
      auto wait = self->changed_.wait();
      co_await std::move(wait);
    }
    if (*stopped || self->closed_) throw LinkError(Failure::kClosed, "", "does not listen any more");
    if (self->called_.empty()) throw LinkError(*self->failure_);
    auto pipe = std::move(self->called_.front());
    self->called_.pop_front();
    co_return pipe;
  }

  void hear(const Message& message) {
    ConstBytes payload = message.payload;
    switch (message.label.type) {
      case kCalled: {
        take_contact(payload);
        const std::uint64_t index = message.label.tag;
        if (index % 2 != 1 || index <= last_called_ || index > 0xffffffffu) {
          throw LinkError(Failure::kProtocol, "", "the relay numbers its calls in the wrong order");
        }
        last_called_ = index;
        auto channel = link_->open(call_channel(index), kChannelPipeBudget);
        if (listening_ && called_.size() < kMaxCalled) {
          called_.push_back(internal::make_channel_pipe(clock_, std::move(channel)));
        } else {
          channel->close(LinkError(Failure::kRefused, "", "does not take calls"));
        }
        return changed_.notify();
      }
      case kPleaseDial: {
        const wire::Contact contact = take_contact(payload);
        if (on_request_) on_request_(contact);
        return;
      }
      case kCouldNotDial: {
        const Fingerprint whom = take_fingerprint(payload);
        for (Request& request : requests_) {
          if (request.whom == whom) request.answer = take_text(payload);
        }
        return changed_.notify();
      }
      default:
        throw LinkError(Failure::kProtocol, "", "the relay says something that means nothing");
    }
  }

  Clock& clock_;
  std::shared_ptr<Link> link_;
  DialRequest on_request_;
  Talker talker_;
  std::uint64_t next_call_ = 0, last_called_ = 1;
  std::deque<std::unique_ptr<Pipe>> called_;
  std::list<Request> requests_;
  std::optional<LinkError> failure_;
  bool listening_ = false, closed_ = false;
  Signal changed_;
};

RelayGuest::RelayGuest(Clock& clock, std::shared_ptr<Link> link, DialRequest on_request)
    : core_(std::make_shared<Core>(clock, std::move(link), std::move(on_request))) {
  boost::asio::co_spawn(clock.executor(), Core::hear_all(core_), boost::asio::detached);
}
RelayGuest::~RelayGuest() { core_->close(); }
Transport& RelayGuest::transport() { return *core_; }
Task<LinkError> RelayGuest::ask_to_dial(Fingerprint whom, std::vector<std::string> addresses, Time deadline) {
  return Core::ask_to_dial(core_, whom, std::move(addresses), deadline);
}
void RelayGuest::could_not_dial(const Fingerprint& whom, const std::string& why) { core_->could_not_dial(whom, why); }

}  // namespace rookery::net
