#include "wire/ticket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace rookery::wire {
namespace {

Ticket ticket() {
  Ticket t{.addresses = {"192.168.1.5:4700", "[fe80::1]:4700", "home.example:4700"}, .expires = 1800000000};
  t.fingerprint.fill(std::byte{0xa5});
  t.secret.fill(std::byte{0x5a});
  return t;
}

TEST(TicketTest, SurvivesAsTextWithSpaceAround) {
  const std::string text = to_text(ticket());
  EXPECT_EQ(parse_ticket(text), ticket());
  EXPECT_EQ(parse_ticket("  \n" + text + "\r\n"), ticket());
  EXPECT_EQ(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
            std::string::npos);
}

TEST(TicketTest, EveryTypingErrorIsNoticed) {
  const std::string text = to_text(ticket());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string wrong = text;
    wrong[i] = wrong[i] == 'x' ? 'y' : 'x';
    EXPECT_THROW(parse_ticket(wrong), WireError) << i;
    EXPECT_THROW(parse_ticket(text.substr(0, i)), WireError) << i;
  }
  EXPECT_THROW(parse_ticket(text + "A"), WireError);
  EXPECT_THROW(parse_ticket("hello"), WireError);
  EXPECT_THROW(parse_ticket(""), WireError);
}

TEST(TicketTest, RefusesAddressesThatAreNone) {
  const auto refused = [](std::vector<std::string> addresses) {
    Ticket t = ticket();
    t.addresses = std::move(addresses);
    EXPECT_THROW(parse_ticket(to_text(t)), WireError);
  };
  refused({});
  refused({""});
  refused({"a b:1"});
  refused({"\x1b[2J:1"});
  refused({std::string(256, 'a')});
  refused(std::vector<std::string>(9, "a:1"));
}

}  // namespace
}  // namespace rookery::wire
