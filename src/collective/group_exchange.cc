#include "collective/group_exchange.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "base/units.h"
#include "collective/internal/stall_watch.h"

namespace rookery::collective {
namespace {

constexpr std::size_t kWindow = 16;  // chunks on their way

}  // namespace

// What arrives goes to memory of its own first: a chunk must have been sent before the others' are added to it, and all
// would wait for each other if they received only then.
class GroupExchange::Run {
 public:
  Run(GroupExchange& group, std::span<float> values, std::vector<float> weights)
      : group_(group),
        codec_(group.options_.codec),
        values_(values),
        weights_(std::move(weights)),
        chunk_(std::max<std::size_t>(group.options_.chunk_bytes / sizeof(float) / kInt8Block, 1) * kInt8Block),
        watch_(group.clock_, group.options_.stall) {
    ROOKERY_CHECK(weights_.size() == group.channels_.size() + 1);
    const std::size_t window = std::min(kWindow, (values.size() + chunk_ - 1) / chunk_);
    for (std::size_t i = 0; i < window; ++i) slots_.emplace_back(group.channels_.size());
    other_weights_ = weights_;
    other_weights_.erase(other_weights_.begin() + static_cast<std::ptrdiff_t>(group.place_));
  }

  Task<> run() {
    for (std::size_t i = 0; i < slots_.size(); ++i) start(i);
    for (std::size_t chunk = 0; chunk * chunk_ < values_.size(); ++chunk) {
      Slot& slot = slots_[chunk % slots_.size()];
      for (std::size_t k = 0; k < slot.others.size(); ++k) {
        waiting_for_ = k;
        co_await slot.others[k].receive.finish();
        if (chunk > 0 || k + 1 == slot.others.size()) moved();
      }
      for (std::size_t k = 0; k < slot.others.size(); ++k) {
        waiting_for_ = k;
        co_await slot.others[k].send.finish();
      }
      // All may have ended well just before the run was cancelled, and the memory may be gone.
      if (group_.cancelled_) throw net::LinkError(*group_.cancelled_);
      mix(slot, chunk);
      if ((chunk + slots_.size()) * chunk_ < values_.size()) start(chunk + slots_.size());
    }
  }

 private:
  // What goes to and comes from one other member.
  struct Exchanged {
    std::vector<std::byte> incoming;  // lossy codecs
    std::vector<float> decoded;
    net::Send send;
    net::Receive receive;
  };

  struct Slot {
    explicit Slot(std::size_t members) : others(members) {}

    std::vector<std::byte> outgoing;  // lossy codecs: what all others get
    std::vector<float> own;           // and what they will decode
    std::vector<Exchanged> others;
  };

  std::span<float> values(std::size_t chunk) const {
    const std::size_t begin = chunk * chunk_;
    return values_.subspan(begin, std::min(chunk_, values_.size() - begin));
  }

  void start(std::size_t chunk) {
    Slot& slot = slots_[chunk % slots_.size()];
    const std::span<float> own = values(chunk);
    const std::size_t bytes = encoded_bytes(codec_, own.size());
    net::ConstBytes payload = std::as_bytes(own);
    if (codec_ != Codec::kNone) {
      slot.outgoing.resize(bytes);
      slot.own.assign(own.begin(), own.end());
      encode_and_keep(codec_, slot.own, slot.outgoing, {});
      payload = slot.outgoing;
    }
    for (std::size_t k = 0; k < slot.others.size(); ++k) {
      Exchanged& other = slot.others[k];
      other.decoded.resize(own.size());
      other.incoming.resize(codec_ == Codec::kNone ? 0 : bytes);
      other.receive.into =
          codec_ == Codec::kNone ? std::as_writable_bytes(std::span(other.decoded)) : std::span(other.incoming);
      group_.channels_[k]->post(other.receive);
      other.send.payload = payload;
      group_.channels_[k]->post(other.send);
    }
  }

  void mix(Slot& slot, std::size_t chunk) {
    const std::span<float> own = values(chunk);
    std::vector<std::span<const float>> terms;
    for (Exchanged& other : slot.others) {
      if (codec_ != Codec::kNone) decode(codec_, other.incoming, other.decoded);
      terms.emplace_back(other.decoded);
    }
    if (codec_ == Codec::kNone) {
      terms.insert(terms.begin() + static_cast<std::ptrdiff_t>(group_.place_), own);
      weighted_sum(terms, weights_, own);
    } else {
      add_differences(terms, other_weights_, slot.own, own);
    }
  }

  void moved() {
    watch_.moved([this] {
      const std::string why = fmt::format("sent nothing for {}", format_duration(group_.options_.stall));
      group_.cancel(net::LinkError(net::Failure::kLate, group_.channels_[waiting_for_]->peer(), why));
    });
  }

  GroupExchange& group_;
  Codec codec_;
  std::span<float> values_;
  std::vector<float> weights_, other_weights_;
  std::size_t chunk_;
  std::deque<Slot> slots_;
  std::size_t waiting_for_ = 0;  // which of the others
  internal::StallWatch watch_;
};

GroupExchange::GroupExchange(Clock& clock, const std::vector<net::Link*>& others, std::size_t place,
                             net::ChannelId channel, ExchangeOptions options)
    : clock_(clock), place_(place), options_(options) {
  ROOKERY_CHECK(place <= others.size(), "place = {}", place);
  for (net::Link* link : others) channels_.push_back(link->open(channel));
}

GroupExchange::~GroupExchange() = default;

Task<> GroupExchange::run(std::span<float> values, std::vector<float> weights) {
  if (cancelled_) throw net::LinkError(*cancelled_);
  Run run(*this, values, std::move(weights));
  std::optional<net::LinkError> failure;
  try {
    auto running = run.run();
    co_await std::move(running);
  } catch (const net::LinkError& error) {
    failure = error;
  }
  if (!failure) co_return;
  cancel(*failure);  // the other members learn it while the operations are still there
  throw net::LinkError(*failure);
}

void GroupExchange::cancel(const net::LinkError& reason) {
  if (!cancelled_) cancelled_ = std::make_shared<net::LinkError>(reason);
  for (const auto& channel : channels_) channel->close(reason);
}

}  // namespace rookery::collective
