#pragma once

#include <optional>
#include <vector>

#include "sync/method.h"

namespace rookery::sync {

// Values [begin, end) of a segment.
struct Range {
  std::size_t begin = 0, end = 0;

  std::size_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// A part of the segment that has rounds of its own; ranges ascend.
using Fragment = std::vector<Range>;

struct LocalOptions {
  std::uint64_t interval = 50;        // H: steps between a fragment's rounds
  std::uint64_t delay = 0;            // τ: steps between the start of a round and the use of its result. Below H
  double merge = 0;                   // α: share of the local value that a result leaves: x ← α x + (1-α) result
  std::vector<Fragment> fragments{};  // none: all values are one
  bool lossy = false;                 // the codec loses something, which is kept for the next round
  bool holds_up = true;               // whether training waits for a round at its time; else see below
  bool changing = false;              // peers come and go: see below
  bool robust = false;                // rounds look for those who lie, and are among all
};

// What methods with long intervals have in common: everybody trains alone for H steps, then the copies agree. With
// fragments the model agrees part by part, each at its own time within the H steps; with a delay training goes on while
// a round is under way. What a round averages, and what its result does, is up to the method.
//
// Where a round does not hold training up, its result a is folded in after the first step that finds it, as a
// difference to the copy s that the round began with: x ← x + (a − s), so what was learnt meanwhile is kept; x ← a
// exactly if there was no step in between. There is one round of a fragment at a time: the next one waits for it.
//
// Where peers come and go, a round that fails is left out: what it would have brought comes with the next one. With
// many clusters each round is among some of them, so that what was agreed is not quite the same everywhere; what
// travels are values then, and not differences to it, which brings everybody together again. Rounds that look for liars
// need differences, in which a lie can be told from the truth, and so are among all; whoever is new when one is under
// way keeps its distance from the others.
//
// Where the copy has moments, their averages come along; not with a lossy codec, which is for differences.
//
// The f-th of F fragments has rounds after step (f+1)·H/F, and every H steps from there. It uses slot f.
class LocalRounds : public Method {
 public:
  LocalRounds(Rounds& rounds, float share, LocalOptions options);

  void start(Copy copy) override;
  Task<> after_step(std::uint64_t step, Copy copy) override;
  Task<> settle(Copy copy) override;
  std::uint64_t rounds_failed() const override { return failed_; }
  void begin_again(std::uint64_t steps_done, Copy copy, bool equal) override;

 protected:
  // What this peer brings to the round: out = … for the values of `range`.
  virtual void contribute(Range range, std::span<const float> parameters, std::span<float> out) = 0;

  // What the mean of all contributions does to the values of `range`.
  virtual void apply(Range range, std::span<const float> mean, std::span<float> parameters) = 0;

  // x ← α x + (1-α) agreed
  float merged(float local, float agreed) const;

  // For methods that begin with something else: the first interval starts after this many steps.
  void begin_after(std::uint64_t steps) { first_step_ = steps; }

  bool lossy() const { return options_.lossy; }
  bool sends_differences() const { return !options_.changing || options_.robust; }

 private:
  struct Part {
    Fragment ranges;
    std::vector<float> values, lost;
    std::vector<float> before;  // what the copy was when the round began, if that is to be known
    std::unique_ptr<Round> round;
    std::uint64_t begun = 0;  // steps done when it began
    bool is_of_use = true;    // the copy is still the one that it began with
  };

  std::uint64_t offset(std::size_t slot) const { return (slot + 1) * options_.interval / parts_.size(); }
  void begin(Which which, Copy copy);
  Task<> end(Part& part, Copy copy);
  template <typename Use>
  static void visit(const Part& part, Copy copy, Use use);
  void agree(Range range, std::span<const float> mean, std::span<float> own, bool is_moment);
  void replace(Part& part, Copy copy);
  void fold_in(Part& part, Copy copy);

  Rounds& rounds_;
  float share_;
  LocalOptions options_;
  std::uint64_t first_step_ = 0, done_ = 0, failed_ = 0;
  std::vector<Part> parts_;
};

}  // namespace rookery::sync
