#include "measure/survey.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <numeric>

#include "base/units.h"
#include "measure/internal/deadline.h"

namespace rookery::measure {
namespace {

using net::Failure;
using net::LinkError;

constexpr std::uint16_t kTalk = 0x0110, kStream = 0x0111;  // what channels are for

constexpr int kEchoes = 5;
constexpr Duration kEchoTime = std::chrono::milliseconds(30);    // after which there are no more
constexpr Duration kStreamTime = std::chrono::milliseconds(20);  // after which a stream is not asked for more
constexpr std::size_t kPiece = 8 * 1024;
constexpr std::size_t kFirstPieces = 4, kMostPieces = 512;  // of a stream
constexpr std::size_t kAtOnce = 2;                          // peers that each sends to in the end

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

// Bytes/s. More and more is asked for, before the last has come; a burst leaves the other end in one go, so what lies
// between its first and its last piece is the line.
Task<double> receive_stream(Clock& clock, net::Link& link, std::size_t sender, std::uint32_t round) {
  const auto channel = stream_channel(link, sender, round);
  std::vector<std::byte> memory(kPiece);
  std::deque<net::Receive> receives;
  std::size_t burst = 0;  // where the last one begins
  Time first_came{};
  for (std::size_t pieces = kFirstPieces;; pieces = receives.size()) {
    burst = receives.size();
    for (std::size_t i = 0; i < pieces; ++i) {
      receives.emplace_back().into = memory;
      channel->post(receives.back());
    }
    auto asking = channel->send({.tag = pieces});
    co_await std::move(asking);
    auto beginning = receives[burst].finish();
    co_await std::move(beginning);
    const Time now = clock.now();
    if (burst == 0) first_came = now;
    if (now - first_came >= kStreamTime || 2 * receives.size() > kMostPieces) break;
  }
  const Time begin = clock.now();
  for (std::size_t i = burst; i < receives.size(); ++i) {
    auto receiving = receives[i].finish();
    co_await std::move(receiving);
  }
  const Duration took = std::max<Duration>(clock.now() - begin, std::chrono::microseconds(1));
  auto ending = channel->send({});
  co_await std::move(ending);
  co_return static_cast<double>((receives.size() - 1 - burst) * kPiece) / std::chrono::duration<double>(took).count();
}

// Two peers, one after the other and both ways at once.
class Pair {
 public:
  Pair(Clock& clock, net::Link& link, std::size_t rank, std::size_t other, std::uint32_t round)
      : clock_(clock),
        link_(link),
        rank_(rank),
        other_(other),
        round_(round),
        talk_(link.open({.purpose = kTalk, .generation = round})) {}

  Task<SurveyedLink> meet() {
    SurveyedLink way{.peer = other_};
    auto echoing = rank_ < other_ ? ask_for_echoes() : echo();
    way.latency = co_await std::move(echoing);
    TaskGroup both(clock_.executor());
    both.spawn(send_stream(link_, rank_, round_));
    auto receiving = receive_stream(clock_, link_, other_, round_);
    way.bandwidth = co_await std::move(receiving);
    auto joined = both.join();
    co_await std::move(joined);
    co_return way;
  }

 private:
  // The first echo comes when the other is there.
  Task<double> ask_for_echoes() {
    Duration shortest = Duration::max();
    Time begin{};
    for (int i = 0; i <= kEchoes && (i <= 1 || clock_.now() - begin < kEchoTime); ++i) {
      const Time start = clock_.now();
      auto asking = talk_->send({.type = 1});
      co_await std::move(asking);
      auto hearing = talk_->receive();
      co_await std::move(hearing);
      if (i == 0) {
        begin = clock_.now();
      } else {
        shortest = std::min(shortest, clock_.now() - start);
      }
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
  std::unique_ptr<net::Channel> talk_;
};

// Everybody sends to the next few at once.
Task<> share(Clock& clock, std::size_t rank, const std::vector<net::Link*>& links, Duration patience,
             std::map<std::size_t, SurveyedLink>& found) {
  const std::size_t peers = links.size();
  const auto round = static_cast<std::uint32_t>(peers + 1);
  TaskGroup all(clock.executor());
  std::deque<Deadline> deadlines;
  for (std::size_t i = 1; i <= kAtOnce; ++i) {
    const std::size_t to = (rank + i) % peers, from = (rank + peers - i) % peers;
    all.spawn(send_stream(*links[to], rank, round));
    const auto receive = [](Clock& c, net::Link& link, std::size_t sender, std::uint32_t number,
                            SurveyedLink& way) -> Task<> {
      auto receiving = receive_stream(c, link, sender, number);
      way.while_sharing = co_await std::move(receiving);
    };
    SurveyedLink& way = found[from];
    way.peer = from;
    all.spawn(receive(clock, *links[from], from, round, way));
    deadlines.emplace_back(clock, *links[from], patience);
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
  for (std::size_t round = 0; round < std::min(rounds, options.most_partners); ++round) {
    const std::size_t other = partners(peers, round)[rank];
    if (other == rank) continue;
    const Deadline deadline(clock, *links[other], options.patience);
    Pair pair(clock, *links[other], rank, other, static_cast<std::uint32_t>(round));
    auto meeting = pair.meet();
    found[other] = co_await std::move(meeting);
  }
  if (peers > kAtOnce + 1) {
    auto sharing = share(clock, rank, links, options.patience, found);
    co_await std::move(sharing);
  }
  std::vector<SurveyedLink> result;
  for (const auto& [other, way] : found) result.push_back(way);
  co_return result;
}

}  // namespace rookery::measure
