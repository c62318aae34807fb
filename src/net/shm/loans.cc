#include "net/shm/loans.h"

#include <algorithm>

#include "base/error.h"
#include "net/error.h"

namespace rookery::net::internal {
namespace {

[[noreturn]] void fail_protocol(const char* what) { throw LinkError(Failure::kProtocol, "", what); }

}  // namespace

void Lender::show(std::shared_ptr<const SharedMemory> memory) {
  ROOKERY_CHECK(can_show());
  shown_.push_back(std::move(memory));
}

std::optional<Lender::Place> Lender::find(ConstBytes bytes) const {
  for (std::uint32_t i = 0; i < shown_.size(); ++i) {
    const ConstBytes memory = shown_[i]->bytes();
    const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
    const auto from = reinterpret_cast<std::uintptr_t>(bytes.data());
    if (from >= begin && from + bytes.size() <= begin + memory.size()) return Place{i, from - begin};
  }
  return std::nullopt;
}

bool Lender::has_room() const {
  if (given_ - control_.returned.load() > LoanControl::kMaxLoans) fail_protocol("returned what it was not lent");
  return outstanding() < LoanControl::kMaxLoans;
}

std::uint64_t Lender::outstanding() const {
  return std::min<std::uint64_t>(given_ - control_.returned.load(), LoanControl::kMaxLoans);
}

void Lender::lend(ConstBytes bytes, std::uint64_t at, std::uint64_t position) {
  const auto place = find(bytes);
  ROOKERY_CHECK(place);
  const std::size_t slot = given_ % LoanControl::kMaxLoans;
  control_.loans[slot] = {at, place->offset, static_cast<std::uint32_t>(bytes.size()), place->memory};
  control_.revoked[slot].store(0, std::memory_order_relaxed);
  positions_[slot] = position;
  control_.given.store(++given_);
}

std::optional<std::uint64_t> Lender::first_lent() const {
  const std::uint64_t count = outstanding();
  if (count == 0) return std::nullopt;
  return positions_[(given_ - count) % LoanControl::kMaxLoans];
}

void Lender::take_back(std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t loan = given_ - outstanding(); loan != given_; ++loan) {
    const std::size_t slot = loan % LoanControl::kMaxLoans;
    // What is written there from now on is written after this.
    if (positions_[slot] >= begin && positions_[slot] < end) control_.revoked[slot].exchange(1);
  }
}

void Borrower::shown(const Descriptor& file) {
  if (memories_.size() == kMaxShown) fail_protocol("shows too many pieces of memory");
  try {
    memories_.emplace_back(file, 0, memory_file_size(file, Access::kRead), Access::kRead);
  } catch (const LinkError&) {
    throw;
  } catch (const Error& error) {
    throw LinkError(Failure::kProtocol, "", error.what());
  }
}

const Loan* Borrower::next() {
  if (loan_) return &*loan_;
  const std::uint64_t count = outstanding();
  if (count == 0) return nullptr;
  if (count > LoanControl::kMaxLoans) fail_protocol("lent more than there is room for");
  loan_ = control_.loans[returned_ % LoanControl::kMaxLoans];
  if (loan_->length == 0) fail_protocol("lent nothing");
  return &*loan_;
}

ConstBytes Borrower::rest() const {
  if (!knows_memory()) fail_protocol("lent memory that it has not shown");
  const ConstBytes memory = memories_[loan_->memory].bytes();
  if (loan_->offset > memory.size() || loan_->length > memory.size() - loan_->offset) {
    fail_protocol("lent more memory than it has shown");
  }
  return memory.subspan(loan_->offset, loan_->length).subspan(read_);
}

bool Borrower::skip(std::size_t bytes) {
  read_ += bytes;
  if (read_ < loan_->length) return false;
  // All of it was read before this, which is not only a load for that reason.
  revoked_ |= control_.revoked[returned_ % LoanControl::kMaxLoans].fetch_or(0) != 0;
  loan_.reset();
  read_ = 0;
  control_.returned.store(++returned_);
  return true;
}

}  // namespace rookery::net::internal
