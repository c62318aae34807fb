#include <algorithm>

#include <ATen/ATen.h>
#include <boost/asio/post.hpp>

#include "base/log.h"
#include "train/checkpoint.h"
#include "train/peer_work.h"

namespace rookery::train {

namespace fs = std::filesystem;

namespace {

std::vector<FlatState> state_of(sync::Method& method, const Stage& stage) {
  std::vector<FlatState> flat;
  for (const auto& state : method.state()) {
    const auto size = static_cast<std::int64_t>(state.values.size());
    flat.push_back({state.name, stage.first() + state.begin, at::from_blob(state.values.data(), {size})});
  }
  return flat;
}

}  // namespace

// The stage has what is in it already.
void PeerWork::load_position(Member& member) {
  member.resume(position_.step, resumed_.samples);
  load_method_state(read_checkpoint_info(*checkpoint_), state_of(member.method(), trainee_->stage()));
  fs::remove_all(options_.scratch);
}

// The average of all copies, of which the stages of the first cluster each write their part; without a method that
// makes them one, the first copy. While the one before is still on its way there is no other, but for the last.
Task<> PeerWork::save(Member& member, bool last) {
  auto looking = is_of_first_cluster("", false, position_.step);
  bool writes = co_await std::move(looking);
  if (!last) {
    auto asking = member.all_say(unfetched_ == 0);
    writes = co_await std::move(asking) && writes;
  }
  const auto write = [&] {
    if (writes) write_checkpoint(member);
  };
  if (trainee_->settings().sync.method == "none") {
    write();
    co_return;
  }
  auto saving = member.with_average(write, last);
  co_await std::move(saving);
}

// When a peer was lost: of those who are left and have a whole copy, the one with the lowest rank saves it. Stages of a
// pipeline may be in different steps by then, and what they have does not make a whole.
Task<> PeerWork::save_own_copy(Member& member, std::string culprit) {
  if (abandoned_) co_return;
  auto asking = is_of_first_cluster(culprit, true, position_.step);
  if (!co_await std::move(asking)) co_return;
  try {
    write_checkpoint(member);
  } catch (const std::exception& error) {
    spdlog::error("this copy could not be saved: {}", error.what());
  }
}

void PeerWork::write_checkpoint(Member& member) {
  const auto clusters = static_cast<std::int64_t>(wiring_->clusters());
  const plan::StagePlace place = wiring_->stage();
  Position position = position_;  // all do as much as this one, or almost
  position.samples = resumed_.samples + position_.samples * clusters;
  position.tokens = resumed_.tokens + position_.tokens * clusters;
  const CheckpointInfo info{.path = {},
                            .position = position,
                            .optimizer_steps = trainee_->stage().optimizer().steps(),
                            .data = trainee_->data_fingerprint(),
                            .text = trainee_->data().tokenizer() != nullptr,
                            .clusters = clusters,
                            .batch = trainee_->settings().train.batch,
                            .updates = static_cast<std::int64_t>(wiring_->schedule().updates()),
                            .saving = saved_++,
                            .made_with = identity(trainee_->settings()),
                            .shards = {{place.stage, place.stages, trainee_->stage().layers()}}};
  save_checkpoint(options_.scratch, info, trainee_->stage(), state_of(member.method(), trainee_->stage()), 1);
  Saving saving{.step = static_cast<std::uint64_t>(position.step)};
  for (const fs::directory_entry& entry : fs::directory_iterator(*newest_checkpoint(options_.scratch))) {
    saving.facts.push_back(swarm::facts_of(entry.path(), entry.path().filename().string()));
    saving.files.push_back(std::make_shared<NamelessFile>(entry.path()));
  }
  fs::remove_all(options_.scratch);
  ++unfetched_;
  boost::asio::post(network_.executor(), [this, saving] {
    unkept_.push_back(saving);
    offer(saving);
  });
}

// If the coordinator is there: else it learns of it when it is again.
void PeerWork::offer(const Saving& saving) {
  if (coordinator_ == nullptr) return;
  for (std::size_t i = 0; i < saving.facts.size(); ++i) {
    coordinator_->offer(saving.facts[i], saving.files[i]->path());
  }
  report_(wire::Saved{.step = saving.step, .files = saving.facts});
}

void PeerWork::kept(std::uint64_t step) {
  if (!unkept_.empty() && unkept_.front().step == step) {
    for (const wire::FileFacts& file : unkept_.front().facts) {
      if (coordinator_ != nullptr) coordinator_->withdraw(file);
    }
    unkept_.pop_front();
    --unfetched_;
  }
  kept_.notify();
}

Task<> PeerWork::wait_until_kept() {
  while (!unkept_.empty() && !abandoned_) {
    auto waiting = kept_.wait();
    co_await std::move(waiting);
  }
}

Task<bool> PeerWork::is_of_first_cluster(std::string culprit, bool whole_copy, std::int64_t step) {
  return ask_network<bool>([=, this] {
    const auto first = first_cluster(culprit, whole_copy, step);
    return first == part_.plan.peers[part_.rank].cluster;
  });
}

// Of those of which nobody is gone.
std::optional<std::uint32_t> PeerWork::first_cluster(const std::string& culprit, bool whole_copy,
                                                     std::int64_t step) const {
  const auto lives = [&](std::size_t rank) {
    const wire::PlannedPeer& peer = part_.plan.peers[rank];
    if (!peer.here || peer.contact.name == culprit ||
        peer.from >= static_cast<std::uint64_t>(std::max<std::int64_t>(1, step))) {
      return false;
    }
    const net::Link* link = part_.links->at(rank);
    return rank == part_.rank || (link != nullptr && !link->has_ended());
  };
  for (std::size_t c = 0; c < clusters_->ranks.size(); ++c) {
    if (whole_copy && clusters_->ranks[c].size() > 1) continue;
    if (std::ranges::all_of(clusters_->ranks[c], lives)) return static_cast<std::uint32_t>(c);
  }
  return {};
}

}  // namespace rookery::train
