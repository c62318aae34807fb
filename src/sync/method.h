#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/task.h"
#include "sync/lendable.h"
#include "sync/rounds.h"

namespace rookery::sync {

// One copy of a segment, as flat vectors. They belong to whoever trains; a method may use them while it is asked to.
struct Copy {
  std::span<float> parameters;
  std::span<float> gradients;
  std::span<const std::span<float>> moments{};  // of the optimizer, if they are to be averaged where parameters are
};

// What a peer does in a step.
enum class Move {
  kGradient,  // forward, backward, before_update, the optimizer's update (with before_block and after_block),
              // after_step
  kPull,      // pull, after_step
};

// How the copies of a model stay one: what each peer does in each step besides its own training, and when it waits for
// the others. One object for one copy of a segment; all peers have the same method with the same options.
//
// Steps count from 0, and go by one; every peer takes the same steps. Lives on the executor of whoever trains.
// Everything that waits throws LinkError when a peer is lost. Parameters are then what they were after the last step
// that ended: a method hands its own buffers to the others, never the parameters.
class Method {
 public:
  virtual ~Method() = default;

  // Before the first step, when all copies are equal. State is restored after this.
  virtual void start(Copy /*copy*/) {}

  virtual Move move(std::uint64_t /*step*/) const { return Move::kGradient; }

  // What the learning rate of a gradient step is multiplied by.
  virtual double lr_factor(std::uint64_t /*step*/) const { return 1; }

  // Backward goes from the last layer to the first: gradients from `from` to the end are complete, and will not be read
  // or written before before_update() has returned.
  virtual void gradients_ready(std::uint64_t /*step*/, std::size_t /*from*/, Copy /*copy*/) {}

  // Whether the gradients of this step become the mean over all copies.
  virtual bool averages_gradients(std::uint64_t /*step*/) const { return false; }

  // The gradients are complete; they may be changed before the update, and so may the parameters.
  virtual Task<> before_update(std::uint64_t step, Copy copy);

  // The update goes over the parameters block by block, in any order, by several threads: what is done to a block right
  // before and after its own update costs no pass over memory of its own. Only called if the method says so.
  virtual bool works_on_blocks() const { return false; }
  virtual void before_block(std::size_t /*begin*/, std::size_t /*end*/, Copy /*copy*/) {}
  virtual void after_block(std::size_t /*begin*/, std::size_t /*end*/, Copy /*copy*/) {}

  // Whether all copies are the same to the last bit after every step so far.
  virtual bool keeps_copies_equal(std::uint64_t /*steps_done*/) const { return false; }

  // Moves the parameters without gradients. `lr_share`: the learning rate as a share of its peak.
  virtual void pull(std::uint64_t step, double lr_share, Copy copy);

  // The step is done.
  virtual Task<> after_step(std::uint64_t step, Copy copy);

  // Finishes what is under way, so that the copies are as equal as they will ever be. At the end of a run.
  virtual Task<> settle(Copy copy);

  // How far this copy has moved away from what was agreed last, ‖x − z‖; nothing where there is no such thing.
  virtual std::optional<double> drift(Copy /*copy*/) const { return std::nullopt; }

  // Whether some steps are pulls.
  virtual bool pulls() const { return false; }

  // What belongs to a checkpoint besides the parameters; equal on all peers. What a lossy codec owes is not, and is
  // forgotten by a run that is interrupted.
  struct NamedState {
    std::string name;
    std::span<float> values;
    std::size_t begin = 0;  // of the copy's values that they belong to
  };
  virtual std::vector<NamedState> state() { return {}; }

  // What a peer needs to take the place of another one in the middle of a run, or to begin again: to be filled with
  // what a holder of the same segment has. Then begin_again() makes a copy of it, after so many steps. `equal`: copies
  // are, see keeps_copies_equal().
  virtual std::vector<std::span<float>> handed_on(Copy copy, bool /*equal*/) { return {copy.parameters}; }

  // What it is where copies are not equal, one vector after another, if others can borrow it at any time; nothing if it
  // has to be copied. One for each segment. Requires, to fill what is lent: it is recalled; it is lent again after
  // begin_again().
  virtual std::vector<std::shared_ptr<const Lendable>> lends() const { return {}; }
  virtual void recall() {}
  virtual void begin_again(std::uint64_t /*steps_done*/, Copy /*copy*/, bool /*equal*/) {}

  // Whether what is handed on where copies are not equal is what was agreed: before the warm-up is over it is not.
  virtual bool has_agreed() const { return true; }

  // Rounds that were finished, and those that failed and were left out.
  virtual std::uint64_t rounds() const { return rounds_; }
  virtual std::uint64_t rounds_failed() const { return 0; }

 protected:
  void count_round() { ++rounds_; }

 private:
  std::uint64_t rounds_ = 0;
};

}  // namespace rookery::sync
