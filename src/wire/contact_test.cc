#include "wire/contact.h"

#include <gtest/gtest.h>

namespace rookery::wire {
namespace {

Contact example() {
  Contact contact{.name = "attic", .addresses = {"192.168.1.5:4700", "[fe80::1]:4700"}};
  contact.fingerprint.fill(std::byte{7});
  return contact;
}

TEST(ContactTest, ComesBackAsItWas) {
  EXPECT_EQ(decode_contact(encode(example())), example());
  Contact unreachable = example();
  unreachable.addresses.clear();
  EXPECT_EQ(decode_contact(encode(unreachable)), unreachable);
}

TEST(ContactTest, WhatIsWrongIsRefused) {
  Contact nameless = example(), crowded = example(), long_winded = example(), tricky = example();
  nameless.name.clear();
  crowded.addresses.assign(kMaxAddresses + 1, "a:1");
  long_winded.addresses = {std::string(kMaxAddressBytes + 1, 'a')};
  tricky.addresses = {"a:1\x1b[2J"};
  for (const Contact& contact : {nameless, crowded, long_winded, tricky}) {
    EXPECT_THROW(decode_contact(encode(contact)), WireError);
  }
  const std::vector<std::byte> bytes = encode(example());
  EXPECT_THROW(decode_contact(std::span(bytes).first(20)), WireError);
  EXPECT_THROW(decode_contact({}), WireError);
}

}  // namespace
}  // namespace rookery::wire
