#pragma once

#include <vector>

#include "sync/all_reduce.h"
#include "sync/local_rounds.h"

namespace rookery::sync {

struct OuterOptions {
  double lr = 0.7;               // η_o
  double momentum = 0.9;         // μ
  std::uint64_t warmup = 0;      // W: the first steps are plain all-reduce
  std::size_t bucket = 1 << 22;  // of the warm-up's gradients, values
};

// DiLoCo: H steps alone, then an outer step with Nesterov momentum on how far everybody went, from the anchor z, the
// model that was agreed last:
//
//   Δ = sum over k of share_k (z − x_k);   v ← μ v + Δ;   z ← z − η_o (Δ + μ v);   x ← z
//
// Where peers come and go, what travels is x_k, and Δ = z − sum over k of share_k x_k with everybody's own z; but not
// if rounds look for liars.
//
// Moments of the inner optimizer stay local.
class Diloco : public LocalRounds {
 public:
  Diloco(Rounds& rounds, float share, LocalOptions local, OuterOptions outer);

  void start(Copy copy) override;
  void gradients_ready(std::uint64_t step, std::size_t from, Copy copy) override;
  Task<> before_update(std::uint64_t step, Copy copy) override;
  Task<> after_step(std::uint64_t step, Copy copy) override;
  std::vector<NamedState> state() override;
  std::vector<std::span<float>> handed_on(Copy copy, bool equal) override;
  std::vector<std::shared_ptr<const Lendable>> lends() const override { return {agreed_}; }
  void recall() override { agreed_->recall(); }
  bool has_agreed() const override { return has_anchor_ || outer_.warmup == 0; }
  void begin_again(std::uint64_t steps_done, Copy copy, bool equal) override;
  bool averages_gradients(std::uint64_t step) const override { return warms_up(step); }
  bool keeps_copies_equal(std::uint64_t steps_done) const override { return steps_done <= outer_.warmup; }

  std::optional<double> drift(Copy copy) const override;

  std::span<const float> anchor() const { return agreed().anchor; }

 protected:
  bool warms_up(std::uint64_t step) const { return step < outer_.warmup; }

 private:
  void contribute(Range range, std::span<const float> parameters, std::span<float> out) override;
  void apply(Range range, std::span<const float> mean, std::span<float> parameters) override;

  struct Agreed {
    std::span<float> anchor, momentum;
  };
  Agreed agreed() const;

  OuterOptions outer_;
  AllReduce warm_up_;
  // z and v, one after the other; offered when a step ends, so that borrowers get both as a round has left them.
  std::shared_ptr<Lendable> agreed_;
  bool has_anchor_ = false;  // the warm-up is over
};

}  // namespace rookery::sync
