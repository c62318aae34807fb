#include "plan/segments.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace rookery::plan {
namespace {

// The stage of a cut that a layer belongs to.
std::size_t stage_of(const Cut& cut, std::size_t layer) {
  const auto after = std::ranges::upper_bound(cut, layer, {}, &Layers::begin);
  return static_cast<std::size_t>(after - cut.begin()) - 1;
}

}  // namespace

void check_cut(const Cut& cut, std::size_t layers, const std::string& name) {
  if (cut.size() > layers) {
    throw InputError("{} has {} stages, but the model has only {} layers", name, cut.size(), layers);
  }
  std::size_t covered = 0;
  for (const Layers& stage : cut) {
    if (stage.begin != covered || stage.end <= stage.begin) {
      throw InputError("{} must cover the layers from 0 on without gaps, but [{}, {}] follows layer {}", name,
                       stage.begin, stage.end, covered);
    }
    covered = stage.end;
  }
  if (covered > layers) {
    throw InputError("{} ends at layer {}, but the model has only {} layers", name, covered, layers);
  }
  if (covered < layers) {
    throw InputError("{} ends at layer {}, but the model has {} layers: nobody would hold the others", name, covered,
                     layers);
  }
}

std::vector<Segment> segments(std::span<const Cut> clusters, std::size_t layers) {
  std::set<std::size_t> begins;
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    check_cut(clusters[i], layers, fmt::format("the cut of cluster {}", i));
    for (const Layers& stage : clusters[i]) begins.insert(stage.begin);
  }
  std::vector<Segment> result;
  for (auto begin = begins.begin(); begin != begins.end(); ++begin) {
    const auto next = std::next(begin);
    Segment segment{.layers = {*begin, next == begins.end() ? layers : *next}, .stages = {}};
    for (const Cut& cut : clusters) segment.stages.push_back(stage_of(cut, *begin));
    result.push_back(std::move(segment));
  }
  return result;
}

}  // namespace rookery::plan
