#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "net/pipe.h"
#include "net/shared_memory.h"
#include "net/shm/memory_file.h"

namespace rookery::net::internal {

// Bytes of a stream that are not copied into its ring: the reader is told where they lie in memory that it has been
// shown, and reads them there. The writer may not change them before the loan is returned; if it must, it revokes the
// loan first, and the reader, which looks after reading, knows that what it has read is worth nothing.
struct Loan {
  std::uint64_t at = 0;      // how many bytes of the ring come before it
  std::uint64_t offset = 0;  // in its memory
  std::uint32_t length = 0;
  std::uint32_t memory = 0;  // its number, in the order in which they were shown
};

// The loans of one direction, as they lie in shared memory. Neither end trusts the other's numbers.
struct LoanControl {
  static constexpr std::size_t kMaxLoans = 64;

  alignas(64) std::atomic<std::uint64_t> given{0};
  alignas(64) std::atomic<std::uint64_t> returned{0};
  alignas(64) std::atomic<std::uint32_t> lender{0};  // RingControl::State: who waits for a loan to be returned
  alignas(64) std::array<Loan, kMaxLoans> loans{};   // the n-th is at n % kMaxLoans
  std::array<std::atomic<std::uint32_t>, kMaxLoans> revoked{};
};

constexpr std::size_t kMaxShown = 16;  // memories that one end may show to the other

// The end that writes.
class Lender {
 public:
  explicit Lender(LoanControl& control) : control_(control) {}

  // Takes note of memory that the other end has been shown. Requires: can_show()
  bool can_show() const { return shown_.size() < kMaxShown; }
  bool has_shown() const { return !shown_.empty(); }
  void show(std::shared_ptr<const SharedMemory> memory);

  // Whether these bytes can be lent.
  bool lends(ConstBytes bytes) const { return find(bytes).has_value(); }

  // Whether one more loan can be given now. Throws LinkError if the other end has returned what makes no sense.
  bool has_room() const;

  // Requires: lends(bytes), and has_room() was true. `at`: of the ring; `position`: of the stream.
  void lend(ConstBytes bytes, std::uint64_t at, std::uint64_t position);

  // Position of the first byte that is lent.
  std::optional<std::uint64_t> first_lent() const;

  // Revokes the loans of positions in [begin, end).
  void take_back(std::uint64_t begin, std::uint64_t end);

 private:
  struct Place {
    std::uint32_t memory;
    std::uint64_t offset;
  };
  std::optional<Place> find(ConstBytes bytes) const;
  std::uint64_t outstanding() const;

  LoanControl& control_;
  std::vector<std::shared_ptr<const SharedMemory>> shown_;
  std::uint64_t given_ = 0;  // own count; that in shared memory is a copy
  std::array<std::uint64_t, LoanControl::kMaxLoans> positions_{};
};

// The end that reads.
class Borrower {
 public:
  explicit Borrower(LoanControl& control) : control_(control) {}

  // Takes memory that the other end shows. Throws LinkError if that is not what it should be.
  void shown(const Descriptor& file);

  // The next loan, if there is one. Throws LinkError if it makes no sense.
  const Loan* next();

  // Whether the next loan's memory has been shown; what is left of it. Requires: next()
  bool knows_memory() const { return loan_->memory < memories_.size(); }
  ConstBytes rest() const;

  // True if that returns the loan.
  bool skip(std::size_t bytes);
  std::uint64_t outstanding() const { return control_.given.load() - returned_; }

  // Whether a loan that was returned since the last call had been revoked by then.
  bool was_revoked() { return std::exchange(revoked_, false); }

 private:
  LoanControl& control_;
  std::vector<Mapping> memories_;
  std::optional<Loan> loan_;  // the next one; a copy, which does not change any more
  std::size_t read_ = 0;      // bytes of it
  std::uint64_t returned_ = 0;
  bool revoked_ = false;
};

}  // namespace rookery::net::internal
