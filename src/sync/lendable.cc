#include "sync/lendable.h"

#include "base/heap.h"

namespace rookery::sync {

Lendable::Lendable(std::vector<float> values) {
  shelf_->edition = std::make_shared<Edition>(Edition{.values = std::move(values)});
}

void Lendable::recall() {
  const auto is_lent = [&] {
    const std::lock_guard lock(shelf_->mutex);
    shelf_->is_offered = false;
    return shelf_->edition->loans > 0;
  };
  if (!is_lent()) return;
  const auto next = std::make_shared<Edition>();
  reserve_large(next->values, values().size());
  next->values.assign(values().begin(), values().end());
  const std::lock_guard lock(shelf_->mutex);
  shelf_->edition = next;
}

void Lendable::offer() {
  const std::lock_guard lock(shelf_->mutex);
  shelf_->is_offered = true;
}

Lendable::Loan Lendable::borrow() const {
  const auto borrowed = [&]() -> std::shared_ptr<Edition> {
    const std::lock_guard lock(shelf_->mutex);
    if (!shelf_->is_offered) return nullptr;
    ++shelf_->edition->loans;
    return shelf_->edition;
  };
  const std::shared_ptr<Edition> edition = borrowed();
  if (!edition) return nullptr;
  return {&edition->values, [shelf = shelf_, edition](const std::vector<float>*) {
            const std::lock_guard lock(shelf->mutex);
            --edition->loans;
          }};
}

}  // namespace rookery::sync
