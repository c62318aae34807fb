#include "train/chaos.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "base/suggest.h"
#include "base/units.h"
#include "train/join.h"

namespace rookery::train {
namespace {

constexpr double kMostRate = 100;  // a second
constexpr std::chrono::seconds kUsualRejoin(10), kUsualThaw(20);

std::string trimmed(std::string text) {
  const auto first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

double parse_rate(const std::string& what, const std::string& text) {
  std::size_t used = 0;
  double rate = -1;
  try {
    rate = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || text.substr(used) != "/s" || !(rate >= 0 && rate <= kMostRate)) {
    throw InputError("--chaos: '{} {}' is no rate; write it like \"{} 0.02/s\"", what, text, what);
  }
  return rate;
}

double seconds_of(std::chrono::nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

// "3 at 20s", if that is what it is.
std::optional<Blow> parse_appointment(const std::string& what, const std::string& text) {
  static const std::map<std::string, Blow::Kind> kKinds = {
      {"kill", Blow::Kind::kKill}, {"freeze", Blow::Kind::kFreeze}, {"cut", Blow::Kind::kCut}};
  const auto kind = kKinds.find(what);
  const std::size_t at = text.find(" at ");
  if (kind == kKinds.end() || at == std::string::npos) return {};
  Blow blow{.kind = kind->second};
  const char* const end = text.data() + at;
  const auto [behind, error] = std::from_chars(text.data(), end, blow.peer);
  if (error != std::errc() || behind != end) {
    throw InputError("--chaos: '{} {}' names no peer; write its number, like \"{} 3 at 20s\"", what, text, what);
  }
  blow.at = seconds_of(parse_duration(trimmed(text.substr(at + 4))));
  return blow;
}

}  // namespace

ChaosOptions parse_chaos(const std::string& text) {
  static const std::vector<std::string> kKnown = {"kill", "freeze", "cut", "rejoin", "thaw"};
  ChaosOptions options{.rejoin = kUsualRejoin, .thaw = kUsualThaw};
  std::set<std::string> seen;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    const std::size_t space = std::min(part.find(' '), part.size());
    const std::string what = part.substr(0, space), value = trimmed(part.substr(space));
    if (const auto blow = parse_appointment(what, value)) {
      options.appointed.push_back(*blow);
      continue;
    }
    if (!seen.insert(what).second) throw InputError("--chaos: '{}' stands there twice", what);
    if (what == "kill") {
      options.kills = parse_rate(what, value);
    } else if (what == "freeze") {
      options.freezes = parse_rate(what, value);
    } else if (what == "cut") {
      options.cuts = parse_rate(what, value);
    } else if (what == "rejoin") {
      options.rejoin = parse_duration(value);
    } else if (what == "thaw") {
      options.thaw = parse_duration(value);
    } else {
      throw InputError("--chaos: there is no '{}'{}; write it like \"kill 0.02/s, freeze 0.01/s, rejoin 10s\"", what,
                       did_you_mean(what, kKnown));
    }
  }
  if (options.kills + options.freezes + options.cuts == 0 && options.appointed.empty()) {
    throw InputError("--chaos: nothing would happen; say how often, like \"kill 0.02/s\"");
  }
  std::ranges::stable_sort(options.appointed, {}, &Blow::at);
  return options;
}

ChaosSchedule::ChaosSchedule(ChaosOptions options, std::size_t peers, std::uint64_t seed)
    : options_(std::move(options)), peers_(peers), seed_(seed) {
  ROOKERY_CHECK(peers > 0);
  for (const Blow& blow : options_.appointed) {
    if (blow.peer < peers) continue;
    throw InputError("--chaos: there is no peer {}; they have the numbers 0 to {}", blow.peer, peers - 1);
  }
  draw();
}

void ChaosSchedule::pass() {
  if (is_appointed()) {
    ++kept_;
  } else {
    draw();
  }
}

// Independent events of all kinds: the time to the next is exponential, by the sum of their rates.
void ChaosSchedule::draw() {
  const double rate = options_.kills + options_.freezes + options_.cuts;
  if (rate <= 0) {
    random_.at = std::numeric_limits<double>::infinity();
    return;
  }
  Random random({seed_, word_of("chaos"), drawn_++});
  random_.at -= std::log1p(-random.uniform()) / rate;
  const double which = random.uniform() * rate;
  random_.kind = which < options_.kills                      ? Blow::Kind::kKill
               : which < options_.kills + options_.freezes ? Blow::Kind::kFreeze
                                                           : Blow::Kind::kCut;
  random_.peer = random.below(peers_);
}

Chaos::Chaos(ChaosOptions options, std::uint64_t seed, LocalPeers& peers, Tell tell)
    : options_(options),
      peers_(peers),
      tell_(std::move(tell)),
      schedule_(options, peers.size(), seed),
      fates_(peers.size()) {}

void Chaos::look(double seconds) {
  for (; schedule_.next().at <= seconds; schedule_.pass()) strike(schedule_.next());
  for (std::size_t peer = 0; peer < fates_.size(); ++peer) care_for(peer, seconds);
}

void Chaos::strike(const Blow& blow) {
  Fate& fate = fates_[blow.peer];
  if (peers_.has_ended(blow.peer) || fate.thaws_at > 0) return;
  struct Way {
    const char* what;
    int signal;
  };
  static const std::map<Blow::Kind, Way> kWays = {{Blow::Kind::kKill, {"is killed", SIGKILL}},
                                                  {Blow::Kind::kFreeze, {"is frozen", SIGSTOP}},
                                                  {Blow::Kind::kCut, {"loses a link", kCutSignal}}};
  const Way& way = kWays.at(blow.kind);
  tell_(peers_.name(blow.peer), way.what);
  peers_.send_signal(blow.peer, way.signal);
  if (blow.kind == Blow::Kind::kFreeze) fate.thaws_at = blow.at + seconds_of(options_.thaw);
}

// Goes on after a while if it is frozen, and comes again after a while if it has gone, for whatever reason.
void Chaos::care_for(std::size_t peer, double seconds) {
  Fate& fate = fates_[peer];
  if (fate.thaws_at > 0 && seconds >= fate.thaws_at) {
    fate.thaws_at = 0;
    tell_(peers_.name(peer), "goes on");
    peers_.send_signal(peer, SIGCONT);
  }
  if (options_.rejoin.count() == 0 || !peers_.has_ended(peer)) return;
  if (fate.returns_at == 0) fate.returns_at = seconds + seconds_of(options_.rejoin);
  if (seconds < fate.returns_at) return;
  fate = {};
  tell_(peers_.name(peer), "comes again");
  peers_.start_again(peer);
}

}  // namespace rookery::train
