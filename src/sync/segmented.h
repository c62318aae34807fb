#pragma once

#include <memory>
#include <vector>

#include "sync/method.h"

namespace rookery::sync {

// One method for a copy whose segments have rings of their own: each segment has a method, and all rings run at the
// same time. Whatever is asked of it, it asks all of them.
class Segmented final : public Method {
 public:
  struct Part {
    std::size_t begin = 0, end = 0;  // of the copy's values
    std::unique_ptr<Method> method;
  };

  // Requires: at least one; they cover the copy in order, and their methods are alike. The executor is that of whoever
  // trains.
  Segmented(Executor executor, std::vector<Part> parts);

  void start(Copy copy) override;
  Move move(std::uint64_t step) const override;
  double lr_factor(std::uint64_t step) const override;
  void gradients_ready(std::uint64_t step, std::size_t from, Copy copy) override;
  bool averages_gradients(std::uint64_t step) const override;
  Task<> before_update(std::uint64_t step, Copy copy) override;
  bool works_on_blocks() const override;
  void before_block(std::size_t begin, std::size_t end, Copy copy) override;
  void after_block(std::size_t begin, std::size_t end, Copy copy) override;
  bool keeps_copies_equal(std::uint64_t steps_done) const override;
  void pull(std::uint64_t step, double lr_share, Copy copy) override;
  Task<> after_step(std::uint64_t step, Copy copy) override;
  Task<> settle(Copy copy) override;
  std::optional<double> drift(Copy copy) const override;
  bool pulls() const override;
  std::vector<NamedState> state() override;
  std::vector<std::span<float>> handed_on(Copy copy, bool equal) override;  // of one part after another
  std::vector<std::shared_ptr<const Lendable>> lends() const override;
  void recall() override;
  bool has_agreed() const override;
  void begin_again(std::uint64_t steps_done, Copy copy, bool equal) override;
  std::uint64_t rounds() const override;         // of the segment that has had most
  std::uint64_t rounds_failed() const override;  // likewise

 private:
  Copy copy_of(std::size_t part, Copy copy) const;
  template <typename Ask>
  Task<> ask_all(Ask ask);

  Executor executor_;
  std::vector<Part> parts_;
  std::vector<std::vector<std::span<float>>> moments_;  // of each part; they stay where they are
};

}  // namespace rookery::sync
