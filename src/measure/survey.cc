#include "measure/survey.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <numeric>

#include "base/units.h"
#include "measure/internal/arrival_rate.h"
#include "measure/internal/deadline.h"

namespace rookery::measure {
namespace {

using net::Failure;
using net::LinkError;

constexpr std::uint16_t kTalk = 0x0110, kStream = 0x0111;  // what channels are for

constexpr int kEchoes = 5;
constexpr Duration kEchoTime = std::chrono::milliseconds(30);    // after which there are no more
constexpr Duration kStreamTime = std::chrono::milliseconds(20);  // after which bursts do not grow any more,
constexpr Duration kLongEnough = std::chrono::milliseconds(8);   // unless the last one took less than this
constexpr double kMoreTime = 0.35;  // seconds that a survey may take longer, so that links are judged by two bursts
constexpr std::size_t kPiece = 8 * 1024;
constexpr std::size_t kFirstPieces = 4, kMostPieces = 512;  // of a stream
constexpr std::size_t kTimes = 2;                           // so often everybody sends to some at once,
constexpr std::size_t kFew = 8;                             // and if they are so few, to others each time

// A stream goes through a channel of its own, by who sends, in bursts of as many pieces as the other end asks for.
std::unique_ptr<net::Channel> stream_channel(net::Link& link, std::size_t sender, std::uint32_t round) {
  return link.open({.purpose = kStream, .generation = round, .index = static_cast<std::uint32_t>(sender)});
}

Task<> send_stream(net::Link& link, std::size_t sender, std::uint32_t round) {
  static const std::vector<std::byte> piece(kPiece);
  const auto channel = stream_channel(link, sender, round);
  std::deque<net::Send> sends;
  for (;;) {
    auto hearing = channel->receive();
    const net::Message wanted = co_await std::move(hearing);
    if (wanted.label.tag == 0) break;
    if (wanted.label.tag > kMostPieces) {
      throw LinkError(Failure::kProtocol, link.peer(), "wants too much for a survey");
    }
    for (std::uint64_t i = 0; i < wanted.label.tag; ++i) {
      sends.emplace_back().payload = piece;
      channel->post(sends.back());
    }
    while (!sends.empty() && sends.front().ended()) sends.pop_front();
  }
  for (net::Send& send : sends) {
    auto sent = send.finish();
    co_await std::move(sent);
  }
}

// The receiving end of a stream.
class Reception {
 public:
  Reception(Clock& clock, net::Link& link, std::size_t sender, std::uint32_t round)
      : clock_(clock), channel_(stream_channel(link, sender, round)), memory_(kPiece) {}

  // Bytes/s. More and more is asked for, before the last has come; then a burst that takes long enough for whatever
  // else either end has to do meanwhile, as far as there may be so many pieces, and another one like it, if there is
  // time. A burst leaves the other end in one go, so what lies between its pieces is the line.
  Task<double> measure(bool twice) {
    Time first_came{};
    for (std::size_t pieces = kFirstPieces;; pieces = receives_.size()) {
      auto asking = ask_for(pieces);
      co_await std::move(asking);
      if (burst_ == 0) first_came = clock_.now();
      if (clock_.now() - first_came >= kStreamTime || 2 * receives_.size() > kMostPieces) break;
    }
    auto ending = end_of_burst();
    HalfBurst halves = co_await std::move(ending);
    for (std::size_t more = 0; (more = missing(halves)) > 0;) {
      auto asking = ask_for(more);
      co_await std::move(asking);
      auto ending_again = end_of_burst();
      halves = co_await std::move(ending_again);
    }
    if (twice) {
      auto asking = ask_for(receives_.size() - burst_);
      co_await std::move(asking);
      auto ending_again = end_of_burst();
      const HalfBurst again = co_await std::move(ending_again);
      halves.durations.insert(halves.durations.end(), again.durations.begin(), again.durations.end());
    }
    auto parting = channel_->send({});
    co_await std::move(parting);
    // If all came at once, it is at least as fast as what that took.
    const double rate = rate_of(halves), pieces = static_cast<double>(receives_.size() - burst_);
    const Duration took = std::max<Duration>(took_, std::chrono::microseconds(1));
    co_return (rate > 0 ? rate : pieces / std::chrono::duration<double>(took).count()) * static_cast<double>(kPiece);
  }

 private:
  // Until its first piece has come.
  Task<> ask_for(std::size_t pieces) {
    burst_ = receives_.size();
    for (std::size_t i = 0; i < pieces; ++i) {
      receives_.emplace_back().into = memory_;
      channel_->post(receives_.back());
    }
    auto asking = channel_->send({.tag = pieces});
    co_await std::move(asking);
    auto beginning = receives_[burst_].finish();
    co_await std::move(beginning);
    begin_ = clock_.now();
  }

  Task<HalfBurst> end_of_burst() {
    std::vector<Time> arrivals{begin_};
    for (std::size_t i = burst_ + 1; i < receives_.size(); ++i) {
      auto receiving = receives_[i].finish();
      co_await std::move(receiving);
      arrivals.push_back(clock_.now());
    }
    took_ = arrivals.back() - begin_;
    co_return half_burst(arrivals);
  }

  // How many pieces another burst should have, if the last one was too short to be believed: as many as come in a
  // while, but not many times more than so far, because a line that seems to be very fast may only have been looked at
  // late.
  std::size_t missing(const HalfBurst& halves) const {
    constexpr std::size_t kTimesMore = 8;
    if (took_ >= kLongEnough || receives_.size() >= kMostPieces) return 0;
    const double rate = rate_of(halves), seconds = std::chrono::duration<double>(2 * kLongEnough).count();
    const std::size_t most = std::min(kTimesMore * receives_.size(), kMostPieces - receives_.size());
    if (most <= receives_.size() - burst_) return 0;  // what would still be allowed says less
    const double wanted = rate > 0 ? rate * seconds : static_cast<double>(most);
    return std::clamp(static_cast<std::size_t>(std::min(wanted, 1e9)), std::min(kFirstPieces, most), most);
  }

  Clock& clock_;
  std::unique_ptr<net::Channel> channel_;
  std::vector<std::byte> memory_;
  std::deque<net::Receive> receives_;
  std::size_t burst_ = 0;  // where the last one begins,
  Time begin_{};           // when its first piece came,
  Duration took_{};        // and how long after it the last one did
};

Task<double> receive_stream(Clock& clock, net::Link& link, std::size_t sender, std::uint32_t round, bool twice) {
  Reception reception(clock, link, sender, round);
  auto measuring = reception.measure(twice);
  co_return co_await std::move(measuring);
}

// Two peers, one after the other and both ways at once.
class Pair {
 public:
  // `meetings`: of each peer in this survey.
  Pair(Clock& clock, net::Link& link, std::size_t rank, std::size_t other, std::uint32_t round, std::size_t meetings)
      : clock_(clock),
        link_(link),
        rank_(rank),
        other_(other),
        round_(round),
        meetings_(meetings),
        talk_(link.open({.purpose = kTalk, .generation = round})) {}

  Task<SurveyedLink> meet() {
    SurveyedLink way{.peer = other_};
    auto echoing = rank_ < other_ ? ask_for_echoes() : echo();
    way.latency = co_await std::move(echoing);
    TaskGroup both(clock_.executor());
    both.spawn(send_stream(link_, rank_, round_));
    auto receiving = receive_stream(clock_, link_, other_, round_, has_time_for_another(way.latency));
    way.bandwidth = co_await std::move(receiving);
    auto joined = both.join();
    co_await std::move(joined);
    co_return way;
  }

 private:
  bool has_time_for_another(double latency) const {
    constexpr double kBurst = 0.025;
    return (2 * latency + kBurst) * static_cast<double>(meetings_) < kMoreTime;
  }

  // The first echo comes when the other is there, so it may take longer than the way there and back, but not less.
  Task<double> ask_for_echoes() {
    Duration shortest = Duration::max();
    Time begin{};
    for (int i = 0; i <= kEchoes && (i <= 1 || clock_.now() - begin < kEchoTime); ++i) {
      const Time start = clock_.now();
      auto asking = talk_->send({.type = 1});
      co_await std::move(asking);
      auto hearing = talk_->receive();
      co_await std::move(hearing);
      if (i == 0) begin = clock_.now();
      shortest = std::min(shortest, clock_.now() - start);
    }
    const double latency = std::chrono::duration<double>(shortest).count() / 2;
    auto telling = talk_->send({.type = 2, .tag = static_cast<std::uint64_t>(shortest.count())});
    co_await std::move(telling);
    co_return latency;
  }

  Task<double> echo() {
    for (;;) {
      auto hearing = talk_->receive();
      const net::Message message = co_await std::move(hearing);
      if (message.label.type == 2) {
        const auto round_trip = std::min<std::uint64_t>(message.label.tag, 3'600'000'000'000);
        co_return std::chrono::duration<double>(Duration(round_trip)).count() / 2;
      }
      auto answering = talk_->send({.type = 1});
      co_await std::move(answering);
    }
  }

  Clock& clock_;
  net::Link& link_;
  std::size_t rank_, other_;
  std::uint32_t round_;
  std::size_t meetings_;
  std::unique_ptr<net::Channel> talk_;
};

// Everybody sends to a few at once. A processor that was busy with something else makes links slower than they are, so
// what counts is the best time.
Task<> share(Clock& clock, std::size_t rank, const std::vector<net::Link*>& links, Duration patience, std::size_t time,
             std::map<std::size_t, SurveyedLink>& found) {
  const std::size_t peers = links.size();
  const auto round = static_cast<std::uint32_t>(peers + 1 + time);
  TaskGroup all(clock.executor());
  std::deque<Deadline> deadlines;
  for (std::size_t i = 0; i < kSharing; ++i) {
    const std::size_t distance = 1 + ((peers <= kFew ? time : 0) * kSharing + i) % (peers - 1);
    const std::size_t to = (rank + distance) % peers, from = (rank + peers - distance) % peers;
    all.spawn(send_stream(*links[to], rank, round));
    const auto receive = [](Clock& c, net::Link& link, std::size_t sender, std::uint32_t number,
                            SurveyedLink& way) -> Task<> {
      auto receiving = receive_stream(c, link, sender, number, false);
      way.while_sharing = std::max(way.while_sharing, co_await std::move(receiving));
    };
    SurveyedLink& way = found[from];
    way.peer = from;
    all.spawn(receive(clock, *links[from], from, round, way));
    deadlines.emplace_back(clock, *links[from], patience);
  }
  auto joined = all.join();
  co_await std::move(joined);
}

// Until all of those have come to the end of the survey.
Task<> wait_for_all(Clock& clock, std::vector<net::Link*> others, std::uint32_t round, Duration patience) {
  const auto meet = [](net::Link& link, std::uint32_t number) -> Task<> {
    const auto talk = link.open({.purpose = kTalk, .generation = number});
    auto saying = talk->send({.type = 1});
    co_await std::move(saying);
    auto hearing = talk->receive();
    co_await std::move(hearing);
  };
  TaskGroup all(clock.executor());
  std::deque<Deadline> deadlines;
  for (net::Link* link : others) {
    all.spawn(meet(*link, round));
    deadlines.emplace_back(clock, *link, patience);
  }
  auto joined = all.join();
  co_await std::move(joined);
}

}  // namespace

std::vector<std::size_t> partners(std::size_t peers, std::size_t round) {
  std::vector<std::size_t> partner(peers);
  std::iota(partner.begin(), partner.end(), std::size_t{0});
  const std::size_t places = peers + peers % 2, last = places - 1;
  if (places < 2) return partner;
  // The last one stays where it is, and the others go round it.
  const auto at = [&](std::size_t place) { return place == last ? last : (place + round) % last; };
  for (std::size_t i = 0; i < places / 2; ++i) {
    const std::size_t a = at(i), b = at(last - i == i ? last : last - i);
    if (a >= peers || b >= peers) continue;
    partner[a] = b;
    partner[b] = a;
  }
  return partner;
}

Task<std::vector<SurveyedLink>> survey(Clock& clock, std::size_t rank, std::vector<net::Link*> links,
                                       SurveyOptions options) {
  const std::size_t peers = links.size(), rounds = peers - 1 + peers % 2;
  std::map<std::size_t, SurveyedLink> found;
  std::vector<net::Link*> met;
  const std::size_t meetings = std::min(rounds, options.most_partners);
  for (std::size_t round = 0; round < meetings; ++round) {
    const std::size_t other = partners(peers, round)[rank];
    if (other == rank) continue;
    const Deadline deadline(clock, *links[other], options.patience);
    Pair pair(clock, *links[other], rank, other, static_cast<std::uint32_t>(round), meetings);
    auto meeting = pair.meet();
    found[other] = co_await std::move(meeting);
    met.push_back(links[other]);
  }
  for (std::size_t time = 0; peers > kSharing + 1 && time < kTimes; ++time) {
    auto sharing = share(clock, rank, links, options.patience, time, found);
    co_await std::move(sharing);
  }
  auto ending = wait_for_all(clock, met, static_cast<std::uint32_t>(peers + 1 + kTimes), options.patience);
  co_await std::move(ending);
  std::vector<SurveyedLink> result;
  for (auto& [other, way] : found) {
    if (way.bandwidth > 0) way.bandwidth = std::max(way.bandwidth, way.while_sharing);  // it can do at least that
    result.push_back(way);
  }
  co_return result;
}

}  // namespace rookery::measure
