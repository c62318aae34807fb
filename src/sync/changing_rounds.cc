#include "sync/changing_rounds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/error.h"
#include "base/heap.h"
#include "base/signal.h"
#include "collective/group_exchange.h"
#include "collective/ring_all_reduce.h"
#include "collective/ring_broadcast.h"
#include "collective/robust_reduce.h"
#include "plan/grid.h"
#include "sync/internal/purpose.h"
#include "sync/internal/start_round.h"

namespace rookery::sync {
namespace {

using collective::RingAllReduce;
using net::LinkError;

constexpr std::size_t kRoundsApart = 4, kSizesApart = 8;  // that cannot be taken for each other
constexpr std::size_t kOtherChannels = 3;                 // of a ring besides those of its steps
constexpr std::size_t kTimesInARow = 3;                   // that whoever is suspected was out of line
constexpr std::size_t kValuesAtATime = 256 * 1024;        // that are copied before others are heard
constexpr std::size_t kRobustChunks = 4;                  // in a usual one: an owner has those of all members in memory

// Of each step of a topology's period those with whom this peer mixes.
std::vector<std::vector<std::size_t>> turns_of(const plan::Topology& topology, std::size_t rank) {
  std::vector<std::vector<std::size_t>> turns;
  for (std::size_t phase = 0; phase < topology.period(); ++phase) turns.push_back(topology.mix(rank, phase).members);
  return turns;
}

// How far a member is with a round that another one asks about: it has no result, and will not have one any more; or it
// has one. As floats, which are exact with every codec.
constexpr float kUnderWay = 0, kPast = 1, kHasResult = 2;

}  // namespace

// The rings of all turns. They last until the last round has ended, which may be after ChangingRounds has gone.
// Confined to the clock's executor.
class ChangingRounds::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Clock& clock, std::size_t rank, std::size_t places, HolderOf holder_of, ChangingRoundsOptions options)
      : clock_(clock),
        rank_(rank),
        holder_of_(std::move(holder_of)),
        options_(std::move(options)),
        turns_(options_.topology ? turns_of(*options_.topology, rank)
                                 : plan::grid_turns(rank, places, options_.group)) {
    if (options_.topology) options_.group = options_.topology->largest_group();
    for (std::size_t i = 0; i < options_.slots * turns_.size(); ++i) rings_.push_back(std::make_unique<Ring>());
  }

  // `taken`: the share of the mean that takes the place of the own values. Others may have come or gone when the last
  // piece was here, and before this goes on: whoever is still in the round then asks how it has ended.
  static Task<> average(std::shared_ptr<Core> self, Which which, std::span<float> values, std::span<float> lost,
                        float taken = 1) {
    std::optional<LinkError> failure;
    try {
      auto averaging = until_it_goes_well(self, which, values, lost, taken);
      co_await std::move(averaging);
    } catch (const LinkError& error) {
      failure = error;
    }
    self->tell_if_changed(which);
    if (failure) throw LinkError(*failure);
  }

  // Again and again, until it has gone well once.
  static Task<> until_it_goes_well(std::shared_ptr<Core> self, Which which, std::span<float> values,
                                   std::span<float> lost, float taken) {
    Ring& ring = self->ring_of(which);
    ring.is_given_up = false;
    Passing passing(ring, self->options_.topology ? self->spare_ : ring.spare, which, values.size());
    auto keeping = keep(ring, values, passing.memory());
    co_await std::move(keeping);
    std::vector<float> own_lost;
    auto keeping_lost = keep(ring, lost, own_lost);
    co_await std::move(keeping_lost);
    for (;;) {
      self->build(ring, which);
      auto agreeing = agreed(ring);
      if (co_await std::move(agreeing)) {
        const std::shared_ptr<Attempt> attempt = ring.attempt;
        std::optional<LinkError> failure;
        std::vector<collective::Finding> findings;
        try {
          if (attempt) {  // else it is alone
            auto running = attempt->run({.values = values, .weight = ring.weight, .lost = lost});
            findings = co_await std::move(running);
          }
        } catch (const LinkError& error) {
          failure = error;
        }
        if (failure) ring.fail(attempt, *failure);
        if (ring.is_given_up) throw LinkError(*ring.failure);  // and the memory may be gone
        if (!failure) {
          self->judge(ring, findings);
          if (attempt && attempt->has_served()) ring.let_go();
          break;
        }
        std::ranges::copy(passing.own(), values.begin());
        std::ranges::copy(own_lost, lost.begin());
      }
      auto waiting = self->changed_since_failure(ring);
      co_await std::move(waiting);
      ++self->repeated_;
    }
    if (taken != 1) {
      const std::span<const float> own = passing.own();
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = own[i] + taken * (values[i] - own[i]);
    }
    if (!self->options_.topology) passing.succeeded(values);
    if (self->options_.apart && !values.empty()) self->forget_before(which.step);
  }

  // What a mix takes from others, as a share of what the mean of its group has from them.
  static Task<> mix(std::shared_ptr<Core> self, Which which, std::span<float> values, plan::Mix mix) {
    double own = 0, all = 0;
    float kept = 1;
    for (std::size_t i = 0; i < mix.members.size(); ++i) {
      const double weight = self->holder_of_(mix.members[i]).weight;
      all += weight;
      if (mix.members[i] == self->rank_) own = weight, kept = mix.weights[i];
    }
    const double taken = mix.averages ? 1 : (1 - static_cast<double>(kept)) / (1 - own / all);
    return average(std::move(self), which, values, {}, static_cast<float>(taken));
  }

  void give_up(Which which) {
    Ring& ring = ring_of(which);
    ring.is_given_up = true;
    ring.fail(ring.attempt, LinkError(net::Failure::kCancelled, "", "gave up a round"));
  }

  void changed(std::size_t place) {
    for (std::size_t turn = 0; turn < turns_.size(); ++turn) {
      if (!std::ranges::binary_search(turns_[turn], place)) continue;
      for (std::size_t slot = 0; slot < options_.slots; ++slot) {
        Ring& ring = ring_of({slot, turn});
        ++ring.changes;
        ring.out_of_line.erase(place);
        ring.fail(ring.attempt, LinkError(net::Failure::kCancelled, "", "others have come or gone"));
        tell_of_last(slot, turn);
      }
    }
  }

  void cancel(const LinkError& reason) {
    is_cancelled_ = true;
    for (const auto& ring : rings_) {
      ring->is_given_up = true;
      ring->fail(ring->attempt, reason);
      for (const auto& attempt : ring->last) attempt->cancel(reason);
    }
  }

  const ChangingRoundsOptions& options() const { return options_; }
  std::uint64_t repeated() const { return repeated_; }

 private:
  // A ring of those who are there now. If others were there before, they first tell each other how far they are with
  // the round; if somebody has its result, that is what all get.
  class Attempt {
   public:
    Attempt(Clock& clock, collective::Ring ring, net::ChannelId first, std::size_t steps,
            collective::AllReduceOptions options)
        : clock_(clock), ring_(ring), options_(options), broadcast_channel_(first), sums_(clock, ring, first, options) {
      broadcast_channel_.index += static_cast<std::uint32_t>(steps);
    }

    // What follows are means by this rule, instead of sums.
    void resist(collective::Circle circle, collective::Robust rule) {
      net::ChannelId first = broadcast_channel_;
      ++first.index;
      means_.emplace(clock_, std::move(circle), first,
                     collective::RobustReduceOptions{
                         .rule = rule, .chunk_bytes = options_.chunk_bytes / kRobustChunks, .stall = options_.stall});
    }

    // What follows are means of a few, who send each other all they have: that is one way instead of two.
    void exchange(const collective::Circle& circle) {
      std::vector<net::Link*> others = circle.links;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(circle.rank));
      net::ChannelId channel = broadcast_channel_;
      ++channel.index;
      weights_ = circle.weights;
      exchange_.emplace(clock_, others, circle.rank, channel,
                        collective::ExchangeOptions{
                            .codec = options_.codec, .chunk_bytes = options_.chunk_bytes, .stall = options_.stall});
    }

    // Returns how far each of them is.
    Task<std::vector<float>> greet(float own) {
      std::vector<float> all(ring_.size);
      sums_.own_piece(all).front() = own;
      auto gathering = sums_.all_gather(all);
      co_await std::move(gathering);
      // A piece belongs to the member before it: see RingAllReduce.
      const auto server = std::ranges::find(all, kHasResult);
      if (server != all.end()) server_ = (static_cast<std::size_t>(server - all.begin()) + ring_.size - 1) % ring_.size;
      co_return all;
    }

    // The sum, or the result that a member had. Returns what was found about members, by rank.
    Task<std::vector<collective::Finding>> run(collective::Contribution contribution) {
      std::vector<collective::Finding> findings;
      if (server_) {
        auto serving = serve(contribution.values);
        co_await std::move(serving);
        std::ranges::fill(contribution.lost, 0.0f);  // it is in the result, as far as anybody knows
      } else if (means_) {
        auto reducing = means_->run(contribution.values);
        findings = co_await std::move(reducing);
      } else if (exchange_) {
        auto exchanging = exchange_->run(contribution.values, weights_);
        co_await std::move(exchanging);
      } else {
        auto summing = sums_.run(contribution);
        co_await std::move(summing);
      }
      co_return findings;
    }

    // `result`: of the one that serves it; memory for it at all others.
    Task<> serve(std::span<float> result) {
      if (cancelled_) throw LinkError(*cancelled_);
      broadcast_.emplace(clock_, ring_, broadcast_channel_,
                         collective::BroadcastOptions{.chunk_bytes = options_.chunk_bytes, .stall = options_.stall});
      auto running = broadcast_->run(std::as_writable_bytes(result), *server_);
      co_await std::move(running);
    }

    // Then it was for that round alone: those who were past it make another ring for the next.
    bool has_served() const { return server_.has_value(); }

    void cancel(const LinkError& reason) {
      if (!cancelled_) cancelled_ = reason;
      sums_.cancel(reason);
      if (means_) means_->cancel(reason);
      if (exchange_) exchange_->cancel(reason);
      if (broadcast_) broadcast_->cancel(reason);
    }

   private:
    Clock& clock_;
    collective::Ring ring_;
    collective::AllReduceOptions options_;
    net::ChannelId broadcast_channel_;
    RingAllReduce sums_;
    std::optional<collective::RobustReduce> means_;
    std::optional<collective::GroupExchange> exchange_;
    std::vector<float> weights_;  // of its members, in an exchange
    std::optional<collective::RingBroadcast> broadcast_;
    std::optional<std::size_t> server_;
    std::optional<LinkError> cancelled_;
  };

  // The last round of a ring: whoever is still in it may ask for its result.
  struct Passed {
    Which which;
    std::size_t size = 0;
    std::shared_ptr<std::vector<float>> result{};  // nothing if it has failed
  };

  // Of one slot and turn. Made when there is a round, and kept as long as nobody comes or goes.
  struct Ring {
    std::shared_ptr<Attempt> attempt{};  // nothing where this peer is alone
    std::optional<Passed> passed{};
    std::shared_ptr<std::vector<float>> spare{};   // memory that nobody uses, for the next round
    std::vector<std::shared_ptr<Attempt>> last{};  // in which others learn how this peer has passed rounds,
    std::uint64_t last_number = 0;                 // the newest of which has this number
    float weight = 1;                              // of this peer in the mean
    std::uint32_t generation = 0;
    std::vector<std::size_t> places{};  // of its members
    bool is_agreed = false;             // they know whether some of them are past the round that is under way,
    bool is_over = false;               // and some are, but without a result
    std::shared_ptr<const LinkError> failure = std::make_shared<LinkError>(net::Failure::kClosed, "", "was not made");
    bool is_given_up = false;
    std::uint64_t changes = 0, changes_before = 0;     // of places: so far, and when it was made
    std::map<std::size_t, std::size_t> out_of_line{};  // for how many rounds now, by place
    Signal changed{};

    void forget_last() {
      for (const auto& told : last) told->cancel(LinkError(net::Failure::kCancelled, "", "others have come or gone"));
      last.clear();
    }

    // Whose channels are those of a round to come.
    void forget_oldest() {
      last.front()->cancel(LinkError(net::Failure::kCancelled, "", "others have gone on"));
      last.erase(last.begin());
    }

    // The next round makes another one.
    void let_go() { failure = std::make_shared<LinkError>(net::Failure::kClosed, "", "was for another round"); }

    // Unless there is another one in the meantime.
    void fail(const std::shared_ptr<Attempt>& failed, const LinkError& reason) {
      if (failed != attempt) return;
      if (attempt) attempt->cancel(reason);
      if (!failure) failure = std::make_shared<LinkError>(reason);
      changed.notify();
    }
  };

  // A round that this peer is past when this goes.
  class Passing {
   public:
    // `spare`: memory that nobody uses, for this round and the next.
    Passing(Ring& ring, std::shared_ptr<std::vector<float>>& spare, Which which, std::size_t size)
        : ring_(ring), spare_(spare), passed_{.which = which, .size = size}, memory_(std::move(spare)) {
      if (!memory_) memory_ = std::make_shared<std::vector<float>>();
    }
    ~Passing() {
      if (ring_.passed && ring_.passed->result.use_count() == 1) spare_ = std::move(ring_.passed->result);
      if (memory_) spare_ = std::move(memory_);
      ring_.passed = std::move(passed_);
    }
    Passing(const Passing&) = delete;
    Passing& operator=(const Passing&) = delete;

    // For what this peer brings.
    std::vector<float>& memory() { return *memory_; }
    std::span<const float> own() const { return *memory_; }

    void succeeded(std::span<const float> result) {
      std::ranges::copy(result, memory_->begin());
      passed_.result = std::move(memory_);
    }

   private:
    Ring& ring_;
    std::shared_ptr<std::vector<float>>& spare_;
    Passed passed_;
    std::shared_ptr<std::vector<float>> memory_;
  };

  // Copies values, a little at a time: memory that is used for the first time takes the kernel a while, and others are
  // to be heard meanwhile. Throws LinkError if the round is given up; then the values may be gone.
  static Task<> keep(Ring& ring, std::span<const float> values, std::vector<float>& copy) {
    copy.clear();
    reserve_large(copy, values.size());
    for (std::size_t begin = 0; begin < values.size(); begin += kValuesAtATime) {
      if (begin > 0) co_await yield();
      if (ring.is_given_up) throw LinkError(*ring.failure);
      const auto piece = values.subspan(begin, std::min(kValuesAtATime, values.size() - begin));
      copy.insert(copy.end(), piece.begin(), piece.end());
    }
  }

  // Beside training, results are kept for as long as somebody may be in their round: a sum that has come about proves
  // that all have begun it, and so are past what was before.
  void forget_before(std::uint64_t step) {
    for (const auto& ring : rings_) {
      if (!ring->passed || ring->passed->which.step >= step) continue;
      ring->spare.reset();
      ring->passed->result.reset();
    }
  }

  Ring& ring_of(Which which) {
    ROOKERY_CHECK(which.slot < options_.slots, "slot {} of {}", which.slot, options_.slots);
    return *rings_[which.slot * turns_.size() + which.number % turns_.size()];
  }

  // Says who lies, by what was found in a round.
  void judge(Ring& ring, const std::vector<collective::Finding>& findings) const {
    std::map<std::size_t, std::size_t> out_of_line;
    for (const collective::Finding& finding : findings) {
      const std::size_t place = ring.places[finding.member];
      const auto before = ring.out_of_line.find(place);
      const std::size_t times = out_of_line[place] = before == ring.out_of_line.end() ? 1 : before->second + 1;
      const bool is_certain = finding.kind == collective::Finding::Kind::kNotFinite || times >= kTimesInARow;
      if (is_certain && options_.suspect) options_.suspect(place, finding.text());
    }
    ring.out_of_line = std::move(out_of_line);
  }

  // Those who are there, and take part in a round.
  struct Members {
    std::vector<std::size_t> places{};
    std::vector<net::Link*> links{};
    std::vector<float> weights{};  // in the mean
    std::size_t own = 0;           // place of this peer among them
    std::uint32_t generation = 0;
  };

  // Throws LinkError if this peer takes no part.
  Members members_of(Which which) const {
    // Whoever knows the holders may be gone by then.
    if (is_cancelled_) throw LinkError(net::Failure::kClosed, "", "takes no part any more");
    Members members{.generation = options_.generation};
    std::vector<double> weights;
    for (const std::size_t place : turns_[which.number % turns_.size()]) {
      const Holder holder = holder_of_(place);
      members.generation = std::max(members.generation, holder.since);
      const bool takes_part = holder.here && holder.from < which.step;
      if (place == rank_) {
        if (!takes_part) throw LinkError(net::Failure::kClosed, "", "takes no part at the moment");
        members.own = members.links.size();
      }
      if (!takes_part) continue;
      if (place != rank_ && holder.link == nullptr) {
        throw LinkError(net::Failure::kClosed, "", fmt::format("has no link to the holder at place {}", place));
      }
      members.places.push_back(place);
      members.links.push_back(holder.link);
      weights.push_back(holder.weight);
    }
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (const double weight : weights) members.weights.push_back(static_cast<float>(weight / all));
    return members;
  }

  void build(Ring& ring, Which which) {
    const Members members = members_of(which);
    // Nobody can be in a round any more that was two rounds of this ring ago.
    if (!ring.last.empty() && which.number >= ring.last_number + 2 * turns_.size()) ring.forget_last();
    // The same ring as before, if nobody has come or gone. Nobody can be past the round then who is in it.
    if (!ring.failure && ring.generation == members.generation && ring.places == members.places) return;
    if (ring.attempt) ring.attempt->cancel(LinkError(net::Failure::kCancelled, "", "others have come or gone"));
    ring.attempt = members.links.size() > 1 ? make(which, members) : nullptr;
    ring.weight = members.weights[members.own];
    ring.generation = members.generation;
    ring.places = members.places;
    ring.failure.reset();
    ring.is_given_up = false;
    ring.changes_before = ring.changes;
    ring.is_over = false;
    ring.is_agreed = !ring.attempt || members.generation == options_.generation;
    if (!ring.is_agreed) {
      boost::asio::co_spawn(clock_.executor(), greet(shared_from_this(), ring, ring.attempt), boost::asio::detached);
    }
  }

  std::shared_ptr<Attempt> make(Which which, const Members& members) const {
    const std::size_t size = members.links.size(), steps = 2 * (options_.group - 1), turns = turns_.size();
    // Another round of the same turn may have more members in the same generation, or be the next try, and so has other
    // channels.
    const std::size_t again = members.generation == options_.generation
                                  ? 0
                                  : which.number / turns % kRoundsApart * kSizesApart + size % kSizesApart;
    const std::size_t block = (which.slot * turns + which.number % turns) * kRoundsApart * kSizesApart + again;
    const std::size_t first = block * (steps + kOtherChannels);
    ROOKERY_CHECK(first + steps + kOtherChannels <= internal::kIndicesPerSegment, "slot {}, round {}", which.slot,
                  which.number);
    auto attempt = std::make_shared<Attempt>(
        clock_,
        collective::Ring{.rank = members.own,
                         .size = size,
                         .previous = members.links[(members.own + size - 1) % size],
                         .next = members.links[(members.own + 1) % size]},
        net::ChannelId{.purpose = options_.apart ? internal::kChangingApartPurpose : internal::kChangingPurpose,
                       .generation = members.generation,
                       .index = static_cast<std::uint32_t>(options_.segment * internal::kIndicesPerSegment + first)},
        steps,
        collective::AllReduceOptions{
            .codec = options_.codec, .chunk_bytes = internal::chunk_bytes(options_.scale), .stall = options_.stall});
    if (options_.robust && (!options_.robust_slot || options_.robust_slot(which.slot))) {
      attempt->resist({.rank = members.own, .links = members.links, .weights = members.weights}, *options_.robust);
    }
    if (options_.topology && size < plan::kSmallestRing) {
      attempt->exchange({.rank = members.own, .links = members.links, .weights = members.weights});
    }
    return attempt;
  }

  // Those who are still in a round that this peer is past learn that, and get its result if there is one. Steps of a
  // topology go on while news travel, so that whoever is new may be some rounds behind.
  void tell_of_last(std::size_t slot, std::size_t turn) {
    Ring& ring = ring_of({slot, turn});
    ring.forget_last();
    if (!ring.passed) return;
    ring.last_number = ring.passed->which.number;
    Passed passed = *ring.passed;
    const std::size_t told = options_.topology ? kRoundsApart / 2 : 1;
    for (std::size_t i = 0; i < told; ++i) {
      tell_of(ring, passed);
      if (passed.which.number < turns_.size()) return;
      passed.which.number -= turns_.size();
      passed.which.step -= turns_.size();
    }
  }

  // Of a round that this peer was in when others came or went, and is past without having been in their new ring.
  void tell_if_changed(Which which) {
    Ring& ring = ring_of(which);
    if (ring.changes == ring.changes_before || !ring.passed) return;
    if (options_.topology && ring.last.size() >= kRoundsApart / 2) ring.forget_oldest();
    ring.last_number = which.number;
    tell_of(ring, *ring.passed);
  }

  void tell_of(Ring& ring, const Passed& passed) {
    std::optional<Members> members;
    try {
      members = members_of(passed.which);
    } catch (const LinkError&) {
      return;  // it takes no part itself
    }
    if (members->links.size() < 2) return;
    ring.last.push_back(make(passed.which, *members));
    boost::asio::co_spawn(clock_.executor(), tell(shared_from_this(), ring, ring.last.back(), passed),
                          boost::asio::detached);
  }

  static Task<> tell(std::shared_ptr<Core> /*self*/, Ring& ring, std::shared_ptr<Attempt> last, Passed passed) {
    try {
      auto greeting = last->greet(passed.result ? kHasResult : kPast);
      const std::vector<float> all = co_await std::move(greeting);
      const bool is_wanted = std::ranges::count(all, kUnderWay) > 0 && std::ranges::count(all, kHasResult) > 0;
      if (is_wanted) {
        if (!passed.result) passed.result = std::make_shared<std::vector<float>>(passed.size);
        auto serving = last->serve(*passed.result);
        co_await std::move(serving);
      }
    } catch (const LinkError&) {
      // There is another ring soon.
    }
    std::erase(ring.last, last);
  }

  // The members of a ring that follows another one tell each other how far they are with its round.
  static Task<> greet(std::shared_ptr<Core> /*self*/, Ring& ring, std::shared_ptr<Attempt> attempt) {
    std::optional<LinkError> failure;
    bool is_over = false;
    try {
      auto greeting = attempt->greet(kUnderWay);
      const std::vector<float> all = co_await std::move(greeting);
      is_over = std::ranges::count(all, kPast) > 0 && std::ranges::count(all, kHasResult) == 0;
    } catch (const LinkError& error) {
      failure = error;
    }
    if (ring.attempt != attempt) co_return;  // there is another one
    if (failure) {
      ring.fail(attempt, *failure);
    } else {
      ring.is_over = is_over;
      ring.is_agreed = true;
      ring.changed.notify();
    }
  }

  // Waits until the members know how far they are with the round; false if one was lost before. Throws LinkError if
  // some are past it, and have no result.
  static Task<bool> agreed(Ring& ring) {
    while (!ring.is_agreed && !ring.failure) {
      auto wait = ring.changed.wait();
      co_await std::move(wait);
    }
    if (ring.failure) co_return false;
    if (std::exchange(ring.is_over, false)) {
      ring.let_go();
      throw LinkError(net::Failure::kLate, "", "the round has failed for others");
    }
    co_return true;
  }

  // Waits until somebody has left the places of a ring that has failed, or come to them: whoever was lost does, soon.
  Task<> changed_since_failure(Ring& ring) {
    Time patience = clock_.now() + options_.stall;
    while (ring.changes == ring.changes_before) {
      if (options_.is_in_suspense && options_.is_in_suspense()) patience = clock_.now() + options_.stall;
      if (ring.is_given_up || clock_.now() >= patience) throw LinkError(*ring.failure);
      auto wait = ring.changed.wait_until(clock_, patience);
      co_await std::move(wait);
    }
    if (ring.is_given_up) throw LinkError(*ring.failure);
  }

  Clock& clock_;
  std::size_t rank_;
  HolderOf holder_of_;
  ChangingRoundsOptions options_;
  std::vector<std::vector<std::size_t>> turns_;  // places of their members
  std::vector<std::unique_ptr<Ring>> rings_;     // by slot and turn
  std::shared_ptr<std::vector<float>> spare_{};  // of all mixes, of which there is one at a time
  bool is_cancelled_ = false;
  std::uint64_t repeated_ = 0;
};

ChangingRounds::ChangingRounds(Clock& clock, Executor home, std::size_t rank, std::size_t places, HolderOf holder_of,
                               ChangingRoundsOptions options)
    : clock_(clock), home_(std::move(home)), rank_(rank), places_(places) {
  ROOKERY_CHECK(rank < places, "rank {} of {}", rank, places);
  core_ = std::make_shared<Core>(clock, rank, places, std::move(holder_of), std::move(options));
}

ChangingRounds::~ChangingRounds() { cancel(LinkError(net::Failure::kCancelled, "", "left the round")); }

std::unique_ptr<Round> ChangingRounds::average(Which which, std::span<float> values, float /*share*/,
                                               std::span<float> lost) {
  const ChangingRoundsOptions& options = core_->options();
  ROOKERY_CHECK(!options.topology);
  return internal::start_round(clock_, home_, Core::average(core_, which, values, lost),
                               {.watch = options.watch, .what = "average", .segment = options.segment},
                               [core = core_, which] { core->give_up(which); });
}

std::unique_ptr<Round> ChangingRounds::mix(std::uint64_t step, std::span<float> values, const plan::Mix& mix) {
  const ChangingRoundsOptions& options = core_->options();
  ROOKERY_CHECK(options.topology && step > 0);
  const Which which{0, step - 1, step};
  return internal::start_round(clock_, home_, Core::mix(core_, which, values, mix),
                               {.watch = options.watch, .what = "mix", .segment = options.segment},
                               [core = core_, which] { core->give_up(which); });
}

std::uint64_t ChangingRounds::repeated() const { return core_->repeated(); }

void ChangingRounds::changed(std::size_t place) { core_->changed(place); }

void ChangingRounds::cancel(const LinkError& reason) { core_->cancel(reason); }

}  // namespace rookery::sync
