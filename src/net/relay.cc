#include "net/relay.h"

#include <map>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <spdlog/spdlog.h>

#include "net/internal/channel_pipe.h"
#include "net/internal/relay_talk.h"
#include "net/line.h"

namespace rookery::net {

using internal::after;
using internal::call_channel;
using internal::kChannelPipeBudget;
using internal::take_contact;
using internal::take_fingerprint;
using internal::take_text;
using internal::talk_channel;
using internal::Talker;

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
      case internal::kCall:
        return call(from, to, message.label.tag);
      case internal::kAskToDial: {
        wire::Contact contact = take_contact(payload);
        contact.name = from->guest.name;  // as it has been proved
        contact.fingerprint = from->guest.key.bytes();
        const bool asked = to && to->talker.say(internal::kPleaseDial, 0, wire::encode(contact));
        const std::string why = to ? "is asked too much at the moment" : "is not connected to the relay";
        if (!asked && !from->talker.say(internal::kCouldNotDial, 0, after(whom, why))) {
          throw LinkError(Failure::kProtocol, "", "does not listen to the relay");
        }
        return;
      }
      case internal::kCouldNotDial:
        // Without it, whoever has asked waits for its deadline.
        if (to)
          static_cast<void>(to->talker.say(internal::kCouldNotDial, 0, after(from->guest.key, take_text(payload))));
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
    if (!to->talker.say(internal::kCalled, to->last_put + 2, wire::encode(contact)))
      return refuse("is called too often");
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

}  // namespace rookery::net
