#include <algorithm>
#include <cmath>

#include <boost/asio/post.hpp>

#include "base/heap.h"
#include "base/log.h"
#include "train/peer_work.h"

namespace rookery::train {

using net::LinkError;

namespace {

// The parts as one, if they lie one behind the other; else nothing.
std::span<float> in_one_place(const std::vector<std::span<float>>& parts) {
  std::span<float> all = parts.front();
  for (auto part = parts.begin() + 1; part != parts.end(); ++part) {
    if (part->data() != all.data() + all.size()) return {};
    all = {all.data(), all.size() + part->size()};
  }
  return all;
}

}  // namespace

// Whoever is new, or has somebody new in its cluster, waits until it may have what others have, fetches it, and begins
// with it. False if the run ends before.
Task<bool> PeerWork::enter(Member& member) {
  for (std::uint32_t last = 0;;) {
    auto waiting = ask_network_for(succession_->wait_for_place(last));
    const std::optional<Inheritance> inheritance = co_await std::move(waiting);
    if (!inheritance) co_return false;
    last = inheritance->since;
    std::exception_ptr failure;
    try {
      auto taking = take_over(member, *inheritance);
      if (co_await std::move(taking)) co_return true;
    } catch (const LinkError&) {
      failure = std::current_exception();
    }
    if (!failure) continue;  // somebody else was lost
    auto asking = ask_network_for(succession_->is_broken(last));
    if (!co_await std::move(asking)) std::rethrow_exception(failure);
  }
}

// False if the cluster is not to be whole in this way after all.
Task<bool> PeerWork::take_over(Member& member, Inheritance inheritance) {
  const bool equal = inheritance.from > 0;
  member.method().recall();
  std::vector<std::vector<float>> gathered;
  const Succession::Estates estates = estates_of(member, equal, gathered);
  auto inheriting = ask_network_for(inheritance.rewinds ? succession_->go_back(estates, inheritance)
                                                        : succession_->inherit(estates, inheritance.since));
  co_await std::move(inheriting);
  begin_with(member, estates, equal);
  saved_ = std::int64_t{inheritance.since} << 32;  // what they save from now on belongs together
  auto placing = ask_network_for(take_place(inheritance.since));
  std::optional<Entry> entry = co_await std::move(placing);
  if (!entry) co_return false;
  const auto from = static_cast<std::int64_t>(entry->from);
  const auto clusters = static_cast<std::int64_t>(wiring_->clusters());
  const std::int64_t batch = trainee_->settings().train.batch;
  resumed_ = {.step = entry->first_step, .samples = entry->first_sample};
  position_.step = from;
  position_.samples = (from - entry->first_step) * batch;
  {
    const std::lock_guard lock(gate_.mutex);
    gate_.begun = std::max(gate_.begun, entry->from);
  }
  const Member::Start start{
      .steps = from, .samples = entry->first_sample + (from - entry->first_step) * clusters * batch, .equal = equal};
  auto beginning = member.begin_again(start, std::move(entry->connections));
  co_await std::move(beginning);
  is_in_ = true;
  hand_on(member);  // others may have come meanwhile, for whom all wait in the next step
  co_return true;
}

// What is handed on of a ring: that of the method, and where copies are equal how many steps the optimizer has done.
std::vector<float> PeerWork::estate_of(Member& member, std::size_t ring, bool equal) const {
  const auto parts = member.handed_on(ring, equal);
  std::size_t all = equal ? 1 : 0;
  for (const std::span<float> part : parts) all += part.size();
  std::vector<float> values;
  reserve_large(values, all);  // it may be much, and others wait meanwhile
  for (const std::span<float> part : parts) values.insert(values.end(), part.begin(), part.end());
  if (equal) values.push_back(static_cast<float>(trainee_->stage().optimizer().steps()));
  return values;
}

// What this peer has of all that, be it from its life before: where it is, or in `gathered`, if it is in several
// places.
Succession::Estates PeerWork::estates_of(Member& member, bool equal, std::vector<std::vector<float>>& gathered) const {
  Succession::Estates estates;
  for (std::size_t i = 0; i < member.rings().size(); ++i) {
    std::span<float> values = in_one_place(member.handed_on(i, equal));
    if (equal || values.empty()) values = gathered.emplace_back(estate_of(member, i, equal));
    estates.push_back({.segment = member.rings()[i].segment, .values = values});
    if (equal || !options_.keepsake) continue;
    const plan::Layers layers = member.rings()[i].layers;
    const auto known = options_.keepsake->extract(std::pair(layers.begin, layers.end));
    if (known && known.mapped().size() == values.size()) std::ranges::copy(known.mapped(), values.begin());
  }
  return estates;
}

// Where copies are not equal all stages begin with fresh moments, as those who are new have to.
void PeerWork::begin_with(Member& member, const Succession::Estates& estates, bool equal) {
  Optimizer& optimizer = trainee_->stage().optimizer();
  for (std::size_t i = 0; i < estates.size(); ++i) {
    const float* values = estates[i].values.data();
    for (const std::span<float> part : member.handed_on(i, equal)) {
      if (part.data() != values) std::copy_n(values, part.size(), part.begin());
      values += part.size();
    }
    if (equal) optimizer.set_steps(std::llround(estates[i].values.back()));
  }
  if (equal || optimizer.steps() == 0) return;
  for (const std::span<float> moment : stage_compute_->moments()) std::ranges::fill(moment, 0.0f);
  optimizer.set_steps(0);
}

// Where copies are equal, everything has changed by the time it comes again.
void PeerWork::remember(Member& member) {
  if (!options_.keepsake || trainee_->settings().sync.method == "allreduce") return;
  for (std::size_t i = 0; i < member.rings().size(); ++i) {
    const plan::Layers layers = member.rings()[i].layers;
    (*options_.keepsake)[{layers.begin, layers.end}] = estate_of(member, i, false);
  }
}

// The cluster is whole: how this peer begins. Stages know each other by the generation in which it was handed on.
Task<std::optional<PeerWork::Entry>> PeerWork::take_place(std::uint32_t since) {
  auto taking = succession_->take_place(since);
  if (!co_await std::move(taking)) co_return std::nullopt;
  co_return Entry{.from = own_place().from,
                  .first_step = static_cast<std::int64_t>(part_.plan.first_step),
                  .first_sample = static_cast<std::int64_t>(part_.plan.first_sample),
                  .connections = wiring_->cluster_connections(since)};
}

// After some steps, if the stages of this cluster have copies of each other.
void PeerWork::keep_copy(Member& member) {
  const auto every = static_cast<std::uint64_t>(trainee_->settings().swarm.buddy_every.value_or(0));
  const auto step = static_cast<std::uint64_t>(position_.step);
  if (every == 0 || step % every != 0 || clusters_->ranks.size() > 1) return;
  Snapshot snapshot;
  for (std::size_t i = 0; i < member.rings().size(); ++i) {
    std::vector<float> own = estate_of(member, i, true);
    if (snapshot.empty()) {
      snapshot = std::move(own);
    } else {
      snapshot.insert(snapshot.end(), own.begin(), own.end());
    }
  }
  boost::asio::post(network_.executor(), [this, step, every, snapshot = std::move(snapshot)]() mutable {
    succession_->keep(step, every, std::move(snapshot));
  });
}

void PeerWork::covered(std::uint64_t step) {
  if (succession_) succession_->covered(step);
}

void PeerWork::offer_loans(const Member& member) {
  std::map<std::size_t, std::shared_ptr<const sync::Lendable>> loans;
  const auto lends = member.lends();
  for (std::size_t i = 0; i < lends.size(); ++i) loans[member.rings()[i].segment] = lends[i];
  boost::asio::post(network_.executor(), [this, loans = std::move(loans)]() mutable { loans_ = std::move(loans); });
}

// Whatever this peer is computing, somebody new gets at once what can be borrowed. False if it cannot be now.
bool PeerWork::lend(const Heir& heir) {
  if (heir.from > 0 || loans_.empty() || !succession_->is_whole(own_place().cluster)) return false;
  std::vector<std::pair<std::size_t, sync::Lendable::Loan>> loans;
  for (const auto& [segment, values] : loans_) {
    if (clusters_->segments[segment].stages[heir.cluster] != heir.stage) continue;
    loans.emplace_back(segment, values->borrow());
    if (!loans.back().second) return false;
  }
  for (auto& [segment, loan] : loans) succession_->give(heir, segment, std::move(loan));
  return true;
}

// After a step: those who have come since get what there is to be handed on, and could not be lent. Not while this peer
// is being given it itself.
void PeerWork::hand_on(Member& member) {
  if (!is_in_) return;
  std::erase_if(heirs_, [&](const Heir& heir) {
    const auto step = static_cast<std::uint64_t>(position_.step);
    const bool equal = heir.from > 0;
    if (step < heir.from || !(equal || member.has_agreed())) return false;
    for (std::size_t i = 0; i < member.rings().size(); ++i) {
      const std::size_t segment = member.rings()[i].segment;
      if (clusters_->segments[segment].stages[heir.cluster] != heir.stage) continue;
      if (equal && step > heir.from) {  // too late
        boost::asio::post(network_.executor(), [this, heir, segment] { succession_->disappoint(heir, segment); });
        continue;
      }
      const auto values = std::make_shared<const std::vector<float>>(estate_of(member, i, equal));
      boost::asio::post(network_.executor(),
                        [this, heir, segment, values] { succession_->give(heir, segment, values); });
    }
    return true;
  });
}

}  // namespace rookery::train
