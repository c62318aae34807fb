#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace rookery::sync {

// Values that their owner changes now and then, and that others can have without a copy as they are in between: whoever
// borrows them keeps them, and if the owner is to change them meanwhile, it goes on with a copy.
//
// Any thread may borrow, at any time; the rest is for the owner. Between recall() and offer() the values are the
// owner's, or of whom it has asked to fill them.
class Lendable {
 public:
  using Loan = std::shared_ptr<const std::vector<float>>;

  explicit Lendable(std::vector<float> values);

  // Where they are, until recall(). Requires, to change them: they are recalled.
  std::span<float> values() { return shelf_->edition->values; }
  std::span<const float> values() const { return shelf_->edition->values; }

  // Nobody can borrow them until they are offered (again). Moves them if somebody has them.
  void recall();

  // Everybody may have them as they are now.
  void offer();

  // Nothing if they are not offered. May outlive this.
  Loan borrow() const;

 private:
  struct Edition {
    std::vector<float> values;
    std::size_t loans = 0;
  };

  // What loans outlive the owner with. The mutex, because whoever borrows must not wait for the owner's executor, which
  // computes for seconds. It guards all but the values, of which the owner changes only those that nobody has.
  struct Shelf {
    std::mutex mutex;
    std::shared_ptr<Edition> edition;
    bool is_offered = false;
  };

  std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
};

}  // namespace rookery::sync
