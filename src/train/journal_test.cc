#include "train/journal.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct JournalTest : ::testing::Test {
  JournalTest() { fs::remove_all(folder); }
  ~JournalTest() override { fs::remove_all(folder); }

  Journal::Entry entry() const {
    Journal::Entry entry{.memory = {.begun = true, .stopping = true, .moving = true, .covered = 40},
                         .listen = "127.0.0.1:7777"};
    entry.memory.plan.generation = 7;
    entry.memory.plan.peers.push_back({.contact = {.name = "attic"}, .cluster = 2, .end = 3, .from = 12});
    entry.memory.expelled.insert(net::Identity::generate().fingerprint());
    return entry;
  }

  std::string refusal() const {
    try {
      Journal(folder).last();
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder = fs::path(::testing::TempDir()) / ("journal-" + std::to_string(::getpid()));
};

TEST_F(JournalTest, KeepsWhoItIsAndTheNewestPlan) {
  const net::Identity identity = net::Identity::generate();
  Journal::Entry kept = entry();
  {
    const Journal journal(folder);
    EXPECT_FALSE(journal.identity());
    EXPECT_FALSE(journal.last());
    journal.keep(identity);
    journal.keep(kept);
    ++kept.memory.plan.generation;
    journal.keep(kept);
  }
  const Journal journal(folder);
  EXPECT_EQ(journal.identity()->fingerprint(), identity.fingerprint());
  const auto last = journal.last();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->memory, kept.memory);
  EXPECT_EQ(last->listen, kept.listen);
  journal.forget();
  EXPECT_FALSE(journal.last());
  const auto permissions = fs::status(folder / "key.pem").permissions();
  EXPECT_EQ(permissions & (fs::perms::group_all | fs::perms::others_all), fs::perms::none);
}

TEST_F(JournalTest, OneCoordinatorAtATimeHasIt) {
  const Journal journal(folder);
  EXPECT_THAT(refusal(), HasSubstr("another coordinator has this run"));
}

TEST_F(JournalTest, WhatIsNoPlanIsRefused) {
  { Journal(folder).keep(entry()); }
  std::string content;
  {
    std::ifstream file(folder / "plan.cbor", std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(file), {});
  }
  EXPECT_EQ(refusal(), "");
  for (std::size_t size = 0; size < content.size(); size += 7) {
    std::ofstream(folder / "plan.cbor", std::ios::binary) << content.substr(0, size);
    EXPECT_THAT(refusal(), HasSubstr("plan.cbor: cannot be read")) << size;
  }
}

TEST_F(JournalTest, TheSameKeyHasTheSameTicket) {
  const net::Identity one = net::Identity::generate(), other = net::Identity::generate();
  EXPECT_EQ(ticket_of(one).secret, ticket_of(one).secret);
  EXPECT_NE(ticket_of(one).secret, ticket_of(other).secret);
}

}  // namespace
}  // namespace rookery::train
