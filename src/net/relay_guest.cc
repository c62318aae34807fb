#include "net/relay_guest.h"

#include <deque>
#include <list>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "net/internal/channel_pipe.h"
#include "net/internal/relay_talk.h"

namespace rookery::net {

using internal::after;
using internal::call_channel;
using internal::kChannelPipeBudget;
using internal::take_contact;
using internal::take_fingerprint;
using internal::take_text;
using internal::talk_channel;
using internal::Talker;

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
    if (!talker_.say(internal::kCall, next_call_ + 2, after(whom))) {
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
    if (!self->talker_.say(internal::kAskToDial, 0, after(whom, wire::encode(own)))) {
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
    static_cast<void>(talker_.say(internal::kCouldNotDial, 0, after(whom, why)));  // or it waits for its deadline
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
      case internal::kCalled: {
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
      case internal::kPleaseDial: {
        const wire::Contact contact = take_contact(payload);
        if (on_request_) on_request_(contact);
        return;
      }
      case internal::kCouldNotDial: {
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
