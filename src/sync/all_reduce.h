#pragma once

#include <vector>

#include "sync/method.h"

namespace rookery::sync {

// The baseline that everybody knows: gradients are averaged, then everybody makes the same update.
//
//   g = sum over k of share_k g_k
//
// So K peers with batch b follow the trajectory of one with batch K·b. The gradients are cut into buckets, and each is
// averaged as soon as backward has completed it.
class AllReduce final : public Method {
 public:
  // Uses slots [0, buckets) of `rounds`, as many as buckets(values, bucket) says.
  // `lossy`: the codec loses something, which is kept for the next step.
  AllReduce(Rounds& rounds, float share, std::size_t bucket, bool lossy = false);

  static std::size_t buckets(std::size_t values, std::size_t bucket) { return (values + bucket - 1) / bucket; }

  void gradients_ready(std::uint64_t step, std::size_t from, Copy copy) override;
  Task<> before_update(std::uint64_t step, Copy copy) override;
  void start(Copy copy) override;
  bool averages_gradients(std::uint64_t /*step*/) const override { return true; }
  bool keeps_copies_equal(std::uint64_t /*steps_done*/) const override { return true; }

 private:
  Rounds& rounds_;
  float share_;
  std::size_t bucket_;
  bool lossy_;
  std::vector<float> lost_;
  std::vector<std::unique_ptr<Round>> under_way_;  // of this step: the last buckets first
};

}  // namespace rookery::sync
