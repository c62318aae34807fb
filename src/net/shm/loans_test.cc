#include "net/shm/loans.h"

#include <fcntl.h>
#include <functional>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "net/error.h"
#include "net/link.h"
#include "net/testing/pipe_worlds.h"

namespace rookery::net {
namespace {

using internal::Borrower;
using internal::Descriptor;
using internal::Lender;
using internal::LoanControl;

std::shared_ptr<SharedMemory> memory_with_pattern(std::size_t bytes) {
  auto memory = std::make_shared<SharedMemory>(bytes);
  for (std::size_t i = 0; i < bytes; ++i) memory->bytes()[i] = static_cast<std::byte>(i * 7 + i / 4096);
  return memory;
}

bool equal(ConstBytes a, ConstBytes b) { return std::ranges::equal(a, b); }

// Both ends of one direction, as two processes would see them.
struct LoansTest : ::testing::Test {
  void SetUp() override {
    lender.show(memory);
    borrower.shown(memory->file());
  }

  ConstBytes part(std::size_t offset, std::size_t size) const { return memory->bytes().subspan(offset, size); }

  std::shared_ptr<SharedMemory> memory = memory_with_pattern(100000);
  LoanControl control;
  Lender lender{control};
  Borrower borrower{control};
};

TEST_F(LoansTest, WhatIsLentIsReadInPlaceAndReturned) {
  const std::vector<std::byte> elsewhere(100);
  EXPECT_FALSE(lender.lends(elsewhere));
  EXPECT_TRUE(lender.lends(part(99000, 1000)));
  EXPECT_FALSE(lender.first_lent());
  lender.lend(part(5000, 60000), 56, 200);
  lender.lend(part(0, 10), 112, 70000);
  EXPECT_EQ(lender.first_lent(), 200u);
  ASSERT_NE(borrower.next(), nullptr);
  EXPECT_EQ(borrower.next()->at, 56u);
  EXPECT_TRUE(equal(borrower.rest(), part(5000, 60000)));
  EXPECT_FALSE(borrower.skip(20000));
  EXPECT_TRUE(equal(borrower.rest(), part(25000, 40000)));
  EXPECT_EQ(lender.first_lent(), 200u);
  EXPECT_TRUE(borrower.skip(40000));
  EXPECT_EQ(lender.first_lent(), 70000u);
  ASSERT_NE(borrower.next(), nullptr);
  EXPECT_TRUE(equal(borrower.rest(), part(0, 10)));
  EXPECT_TRUE(borrower.skip(10));
  EXPECT_EQ(borrower.next(), nullptr);
  EXPECT_FALSE(lender.first_lent());
  EXPECT_FALSE(borrower.was_revoked());
}

TEST_F(LoansTest, NoMoreAreGivenThanThereIsRoomFor) {
  for (std::uint64_t i = 0; i < 3 * LoanControl::kMaxLoans; ++i) {
    if (!lender.has_room()) {
      ASSERT_NE(borrower.next(), nullptr);
      EXPECT_EQ(borrower.next()->at, i - LoanControl::kMaxLoans);
      EXPECT_TRUE(borrower.skip(1000));
    }
    lender.lend(part(i, 1000), i, 1000 * i);
  }
  EXPECT_EQ(borrower.outstanding(), LoanControl::kMaxLoans);
}

TEST_F(LoansTest, WhatWasTakenBackIsNotTrusted) {
  for (std::uint64_t i = 0; i < 3; ++i) lender.lend(part(0, 1000), 0, 1000 * i);
  lender.take_back(1000, 2000);
  for (const bool revoked : {false, true, false}) {
    ASSERT_NE(borrower.next(), nullptr);
    borrower.skip(1000);
    EXPECT_EQ(borrower.was_revoked(), revoked);
  }
  // Its place is used again, for one that is not.
  for (std::uint64_t i = 0; i < LoanControl::kMaxLoans; ++i) {
    lender.lend(part(0, 1000), 0, 10000 + i);
    ASSERT_NE(borrower.next(), nullptr);
    borrower.skip(1000);
    EXPECT_FALSE(borrower.was_revoked());
  }
}

TEST_F(LoansTest, NonsenseOfTheOtherEndIsRefused) {
  const auto forged = [&](internal::Loan loan, std::uint64_t given) {
    LoanControl forgery;
    forgery.loans[0] = loan;
    forgery.given = given;
    Borrower victim(forgery);
    victim.shown(memory->file());
    if (victim.next() != nullptr) victim.rest();
  };
  EXPECT_NO_THROW(forged({.offset = 99999, .length = 1}, 1));
  EXPECT_THROW(forged({.offset = 99999, .length = 2}, 1), LinkError);
  EXPECT_THROW(forged({.offset = ~std::uint64_t{0}, .length = 2}, 1), LinkError);
  EXPECT_THROW(forged({.offset = 0, .length = 0}, 1), LinkError);
  EXPECT_THROW(forged({.offset = 0, .length = 100001}, 1), LinkError);
  EXPECT_THROW(forged({.offset = 0, .length = 1, .memory = 1}, 1), LinkError);
  EXPECT_THROW(forged({.offset = 0, .length = 1}, LoanControl::kMaxLoans + 1), LinkError);
  EXPECT_THROW(forged({.offset = 0, .length = 1}, ~std::uint64_t{0}), LinkError);
  control.returned = 5;
  EXPECT_THROW(lender.has_room(), LinkError);
  EXPECT_NO_THROW(lender.take_back(0, 100));
}

TEST_F(LoansTest, OnlyMemoryThatStaysIsTaken) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
  const auto offer = [&](off_t allocated, off_t size, int seals, unsigned flags = 0) {
    const Descriptor file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
    ASSERT_TRUE(allocated == 0 || ::fallocate(file.get(), 0, 0, allocated) == 0);
    ASSERT_EQ(::ftruncate(file.get(), size), 0);
    ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
    borrower.shown(file);
  };
  EXPECT_NO_THROW(offer(8192, 8192, kSeals));
  EXPECT_THROW(offer(8192, 8192, kSeals & ~F_SEAL_SHRINK), LinkError);
  EXPECT_THROW(offer(8192, 8192, kSeals & ~F_SEAL_FUTURE_WRITE), LinkError);  // holes could be punched into it
  EXPECT_THROW(offer(0, off_t{1} << 40, kSeals), LinkError);  // whoever reads it would have to provide it
  EXPECT_THROW(offer(0, 0, kSeals), LinkError);
  EXPECT_THROW(offer(0, 2 << 20, kSeals, MFD_HUGETLB), LinkError);
  const auto show_many = [&] {
    for (std::size_t i = 0; i <= internal::kMaxShown; ++i) borrower.shown(memory->file());
  };
  EXPECT_THROW(show_many(), LinkError);
}

// A link between two ends that share memory.
struct LendingTest : ::testing::Test {
  LendingTest() {
    for (const auto& kind : testing::pipe_kinds()) {
      if (kind.name == "shm") world = kind.make();
    }
    auto [a, b] = world->connect();
    std::vector<std::unique_ptr<Pipe>> one, other;
    one.push_back(std::move(a));
    other.push_back(std::move(b));
    alice = make_link(world->clock(), std::move(one), {.peer = "bob"});
    bob = make_link(world->clock(), std::move(other), {.peer = "alice"});
  }

  void run_both(Task<> first, Task<> second) {
    TaskGroup group(world->executor());
    group.spawn(std::move(first));
    group.spawn(std::move(second));
    world->run(group.join());
  }

  static constexpr ChannelId kChannel{.purpose = 1};
  static constexpr std::size_t kBytes = 5'000'000;
  std::unique_ptr<testing::PipeWorld> world;
  std::unique_ptr<Link> alice, bob;
  std::shared_ptr<SharedMemory> memory = memory_with_pattern(kBytes);
};

TEST_F(LendingTest, MessagesFromSharedMemoryArriveAmongOthers) {
  EXPECT_TRUE(alice->share(memory));
  const std::vector<std::byte> copied(300000, std::byte{9});
  const std::size_t sizes[] = {kBytes, 100, 4096, 1 << 20, 70001};
  const auto send = [&]() -> Task<> {
    const auto channel = alice->open(kChannel);
    for (const std::size_t size : sizes) {
      const std::vector<ConstBytes> more = {copied, memory->bytes().last(size)};
      Send sends[2];
      sends[0].payload = memory->bytes().first(size);
      sends[1].more = more;
      for (Send& s : sends) channel->post(s);
      for (Send& s : sends) co_await s.finish();
    }
    auto heard = channel->receive();
    co_await std::move(heard);
  };
  const auto receive = [&]() -> Task<> {
    const auto channel = bob->open(kChannel);
    for (const std::size_t size : sizes) {
      std::vector<std::byte> first(size), second(copied.size() + size);
      Receive receives[2];
      receives[0].into = first;
      receives[1].into = second;
      for (Receive& r : receives) channel->post(r);
      for (Receive& r : receives) co_await r.finish();
      EXPECT_TRUE(equal(first, memory->bytes().first(size)));
      EXPECT_TRUE(equal(ConstBytes(second).first(copied.size()), copied));
      EXPECT_TRUE(equal(ConstBytes(second).subspan(copied.size()), memory->bytes().last(size)));
    }
    auto said = channel->send({});
    co_await std::move(said);
    auto closed = channel->receive();
    EXPECT_THROW(co_await std::move(closed), LinkError);
  };
  run_both(send(), receive());
}

// Otherwise whoever sends would change what has not been read.
TEST_F(LendingTest, ASendEndsWhenItWasRead) {
  EXPECT_TRUE(alice->share(memory));
  const auto send = [&]() -> Task<> {
    const auto channel = alice->open(kChannel);
    for (int round = 0; round < 200; ++round) {
      std::ranges::fill(memory->bytes().first(50000), static_cast<std::byte>(round));
      auto sending = channel->send({}, memory->bytes().first(50000));
      co_await std::move(sending);
    }
    auto heard = channel->receive();
    co_await std::move(heard);
  };
  const auto receive = [&]() -> Task<> {
    const auto channel = bob->open(kChannel);
    std::vector<std::byte> arrived(50000);
    for (int round = 0; round < 200; ++round) {
      auto receiving = channel->receive(arrived);
      co_await std::move(receiving);
      EXPECT_EQ(std::ranges::count(arrived, static_cast<std::byte>(round)), 50000);
    }
    auto said = channel->send({});
    co_await std::move(said);
    auto closed = channel->receive();
    EXPECT_THROW(co_await std::move(closed), LinkError);
  };
  run_both(send(), receive());
}

TEST_F(LendingTest, WhatIsGivenUpHalfWayNeverArrivesWrong) {
  EXPECT_TRUE(alice->share(memory));
  const auto pattern = memory_with_pattern(300000);
  constexpr std::uint32_t kMoments = 60;
  std::size_t whole = 0;
  const auto give_up = [&]() -> Task<> {
    for (std::uint32_t moment = 0; moment < kMoments; ++moment) {
      const auto channel = alice->open({.purpose = 1, .index = moment});
      auto ready = channel->receive();
      co_await std::move(ready);
      std::ranges::copy(pattern->bytes(), memory->bytes().begin());
      Send send;
      send.payload = memory->bytes().first(300000);
      channel->post(send);
      for (std::uint32_t i = 0; i < moment; ++i) co_await yield();
      channel->close();
      std::ranges::fill(memory->bytes().first(300000), std::byte{0xee});
    }
  };
  const auto wait = [&]() -> Task<> {
    for (std::uint32_t moment = 0; moment < kMoments; ++moment) {
      const auto channel = bob->open({.purpose = 1, .index = moment});
      std::vector<std::byte> arrived(300000);
      Receive receive;
      receive.into = arrived;
      channel->post(receive);
      auto said = channel->send({});
      co_await std::move(said);
      bool failed = false;
      try {
        co_await receive.finish();
      } catch (const LinkError&) {
        failed = true;
      }
      if (failed) continue;
      ++whole;
      EXPECT_TRUE(equal(arrived, pattern->bytes())) << "given up after " << moment << " turns";
    }
  };
  run_both(give_up(), wait());
  EXPECT_GT(whole, 0u);
  EXPECT_LT(whole, kMoments);
}

TEST_F(LendingTest, ALinkThatGoesLeavesNothingWaiting) {
  EXPECT_TRUE(alice->share(memory));
  const auto send = [&]() -> Task<> {
    const auto channel = alice->open(kChannel);
    auto sending = channel->send({}, memory->bytes());
    EXPECT_THROW(co_await std::move(sending), LinkError);
  };
  const auto leave = [&]() -> Task<> {
    const auto channel = bob->open(kChannel);
    std::vector<std::byte> arrived(kBytes);
    Receive receive;
    receive.into = arrived;
    channel->post(receive);
    co_await yield();
    co_await yield();
    bob->close();
    EXPECT_THROW(co_await receive.finish(), LinkError);
  };
  run_both(send(), leave());
  EXPECT_FALSE(bob->share(memory));
}

// Parameters are nobody else's to change.
TEST_F(LoansTest, WhoeverIsShownMemoryCannotWriteIt) {
  const int fd = memory->file().get();
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_LT(::pwrite(fd, "x", 1, 0), 0);
  EXPECT_NE(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  memory->bytes()[0] = std::byte{1};
}

// The other end's process dies, with bytes of its own unread and loans out.
TEST_F(LendingTest, AnEndThatVanishesLeavesNothingWaiting) {
  for (int moment = 0; moment < 12; ++moment) {
    auto [a, b] = world->connect();
    std::vector<std::unique_ptr<Pipe>> one;
    one.push_back(std::move(a));
    const auto link = make_link(world->clock(), std::move(one), {.peer = "bob"});
    EXPECT_TRUE(link->share(memory));
    const auto send = [&]() -> Task<> {
      const auto channel = link->open(kChannel);
      auto sending = channel->send({}, memory->bytes().first(60000));
      EXPECT_THROW(co_await std::move(sending), LinkError);
    };
    const auto vanish = [&, &pipe = b]() -> Task<> {
      for (int i = 0; i < 2 * moment; ++i) co_await yield();
      const wire::FrameHeaderBytes ping = wire::encode(wire::FrameHeader{.kind = wire::FrameKind::kPing});
      const ConstBytes part = ping;
      if (moment % 2 == 0) pipe->write({&part, 1});
      pipe->close();
    };
    run_both(send(), vanish());
  }
}

TEST_F(LendingTest, OnlySoMuchMemoryCanBeShown) {
  std::size_t shown = 0;
  while (alice->share(memory)) ++shown;
  EXPECT_EQ(shown, internal::kMaxShown);
}

}  // namespace
}  // namespace rookery::net
