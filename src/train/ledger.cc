#include "train/ledger.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace rookery::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr Bytes kMostBytes = Bytes{64} << 20;

// What came after a step is done anew.
void forget_after(std::vector<observe::ClusterSteps>& steps, std::int64_t step) {
  std::erase_if(steps, [&](const observe::ClusterSteps& own) { return own.first_step > step; });
  for (observe::ClusterSteps& own : steps) own.last_step = std::min(own.last_step, step);
}

}  // namespace

Ledger::Ledger(std::filesystem::path file, std::int64_t step) : file_(std::move(file)), last_step_(step) {
  if (!file_.empty() && step > 0 && std::filesystem::exists(file_)) load(step);
}

void Ledger::done(std::int64_t step, const std::vector<bool>& clusters) {
  bool has_changed = false;
  for (std::size_t cluster = 0; cluster < clusters.size(); ++cluster) {
    const auto own = static_cast<std::int64_t>(cluster);
    const auto before = std::ranges::find_if(left_out_, [&](const observe::ClusterSteps& other) {
      return other.cluster == own && other.last_step == last_step_ && last_step_ + 1 == step;
    });
    const bool was_out = before != left_out_.end();
    has_changed = has_changed || was_out == clusters[cluster];
    if (clusters[cluster]) continue;
    if (was_out) {
      before->last_step = step;
    } else {
      left_out_.push_back({.cluster = own, .first_step = step, .last_step = step});
    }
  }
  // Another plan may have fewer clusters.
  has_changed = has_changed || std::ranges::any_of(left_out_, [&](const observe::ClusterSteps& other) {
                  return other.last_step == last_step_ && other.cluster >= static_cast<std::int64_t>(clusters.size());
                });
  last_step_ = step;
  if (has_changed) save();
}

void Ledger::forgot(observe::ClusterSteps steps) {
  forgotten_.push_back(steps);
  save();
}

void Ledger::rewound(std::int64_t from, std::int64_t to) {
  last_step_ = to;
  if (from <= to) return;
  for (auto* steps : {&left_out_, &forgotten_}) forget_after(*steps, to);
  repeated_.push_back({.first_step = to + 1, .last_step = from});
  save();
}

std::int64_t Ledger::steps_left_out() const {
  std::int64_t steps = 0;
  for (const observe::ClusterSteps& own : left_out_) steps += own.last_step - own.first_step + 1;
  return steps;
}

// What was still going on when it was written went on until then.
void Ledger::load(std::int64_t step) {
  try {
    const Json object = Json::parse(read_file(file_, kMostBytes));
    for (const Json& own : object.at("left_out")) {
      const std::int64_t last = own.value("last_step", std::numeric_limits<std::int64_t>::max());
      left_out_.push_back(
          {.cluster = own.at("cluster"), .first_step = own.at("first_step"), .last_step = std::min(last, step)});
    }
    for (const Json& own : object.value("forgotten", Json::array())) {  // not in files of older versions
      forgotten_.push_back(
          {.cluster = own.at("cluster"), .first_step = own.at("first_step"), .last_step = own.at("last_step")});
    }
    for (const Json& own : object.at("repeated")) {
      repeated_.push_back({.first_step = own.at("first_step"), .last_step = own.at("last_step")});
    }
  } catch (const nlohmann::json::exception& error) {
    throw InputError("{}: cannot be read: {}", file_.string(), error.what());
  }
  for (auto* steps : {&left_out_, &forgotten_}) forget_after(*steps, step);
}

void Ledger::save() const {
  if (file_.empty()) return;
  Json object = {{"left_out", Json::array()}, {"forgotten", Json::array()}, {"repeated", Json::array()}};
  for (const observe::ClusterSteps& own : left_out_) {
    Json line = {{"cluster", own.cluster}, {"first_step", own.first_step}};
    if (own.last_step < last_step_) line["last_step"] = own.last_step;
    object["left_out"].push_back(line);
  }
  for (const observe::ClusterSteps& own : forgotten_) {
    object["forgotten"].push_back(
        {{"cluster", own.cluster}, {"first_step", own.first_step}, {"last_step", own.last_step}});
  }
  for (const observe::Repeated& own : repeated_) {
    object["repeated"].push_back({{"first_step", own.first_step}, {"last_step", own.last_step}});
  }
  replace_file(file_, object.dump() + "\n");
}

}  // namespace rookery::train
