#include "measure/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/real_world.h"
#include "measure/probe.h"
#include "net/tcp/route.h"

namespace rookery::measure {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A practice and those who consult it, on loopback sockets.
class DoctorTest : public ::testing::Test {
 protected:
  Examination examine(
      const std::function<void(wire::Ticket&)>& change = [](wire::Ticket&) {}, DoctorOptions options = {}) {
    options.patience = 2s;
    Practice practice(world_.clock(), *transport_, {.listen = "127.0.0.1:0"});
    Examination examination;
    std::vector<std::string> told;
    const auto visit = [&]() -> Task<> {
      wire::Ticket ticket = practice.ticket();
      change(ticket);
      auto examining = measure::examine(world_.clock(), *transport_, ticket, options,
                                        [&](const Finding& finding) { told.push_back(finding.topic); });
      examination = co_await std::move(examining);
      practice.close();
    };
    TaskGroup group(world_.executor());
    group.spawn(practice.serve());
    group.spawn(visit());
    world_.run(group.join(), 60s);
    std::vector<std::string> topics;
    for (const Finding& finding : examination.findings) topics.push_back(finding.topic);
    EXPECT_EQ(topics, told);
    return examination;
  }

  static const Finding& find(const Examination& examination, const std::string& topic) {
    for (const Finding& finding : examination.findings) {
      if (finding.topic == topic) return finding;
    }
    static const Finding none{.topic = "none", .text = "nothing was found"};
    return none;
  }

  RealWorld world_;
  std::unique_ptr<net::Transport> transport_ = net::make_tcp_transport(world_.clock());
};

TEST_F(DoctorTest, FindsEverythingThatASwarmNeeds) {
  const Examination found = examine();
  std::vector<std::string> topics;
  for (const Finding& finding : found.findings) {
    topics.push_back(finding.topic);
    const bool same_computer = finding.topic == "interface";
    EXPECT_EQ(finding.verdict, same_computer ? Verdict::kDoubtful : Verdict::kGood) << finding.topic << finding.text;
    EXPECT_EQ(finding.advice.empty(), finding.verdict == Verdict::kGood) << finding.topic;
  }
  EXPECT_THAT(topics, ElementsAre("ticket", "interface", "port", "trust", "clock", "latency", "bandwidth", "reachable",
                                  "relay"));
  EXPECT_EQ(found.way, net::Way::kDirect);
  EXPECT_LE(std::chrono::abs(*found.clock_difference), 1s);
  EXPECT_GT(*found.round_trip, 0s);
  EXPECT_GT(*found.upload, 1e6);
  EXPECT_GT(*found.download, 1e6);
}

TEST_F(DoctorTest, APeerThatCannotBeDialledIsToldWhatHappensThen) {
  const Examination found = examine([](wire::Ticket&) {}, {.listen = "127.0.0.2:0"});  // not where it is seen
  const Finding& reachable = find(found, "reachable");
  EXPECT_EQ(reachable.verdict, Verdict::kDoubtful);
  EXPECT_THAT(reachable.text, HasSubstr("it dials them instead"));
  EXPECT_THAT(reachable.advice, HasSubstr("firewall"));
  EXPECT_EQ(found.way, net::Way::kReverse);
  EXPECT_EQ(find(found, "relay").verdict, Verdict::kGood) << find(found, "relay").text;
}

TEST_F(DoctorTest, AnUnknownNameIsSaidToBeOne) {
  const Examination found = examine([](wire::Ticket& ticket) { ticket.addresses = {"no-such-host.invalid:4700"}; });
  EXPECT_EQ(find(found, "name").verdict, Verdict::kBad);
  EXPECT_THAT(find(found, "name").text, HasSubstr("no-such-host.invalid stands for no address"));
  EXPECT_EQ(found.verdict(), Verdict::kBad);
}

TEST_F(DoctorTest, AClosedPortIsSaidToBeOneAndTheNextAddressIsTried) {
  const Examination found =
      examine([](wire::Ticket& ticket) { ticket.addresses.insert(ticket.addresses.begin(), "127.0.0.1:1"); });
  EXPECT_EQ(find(found, "port").verdict, Verdict::kBad);
  EXPECT_THAT(find(found, "port").advice, HasSubstr("nothing listens there"));
  EXPECT_EQ(find(found, "trust").verdict, Verdict::kGood);
}

TEST_F(DoctorTest, AnotherKeyAWrongSecretAndAnExpiredTicketAreNoticed) {
  Examination found = examine([](wire::Ticket& ticket) { ticket.fingerprint[0] ^= std::byte{1}; });
  EXPECT_THAT(find(found, "trust").text, HasSubstr("has another key"));
  found = examine([](wire::Ticket& ticket) { ticket.secret[0] ^= std::byte{1}; });
  EXPECT_THAT(find(found, "trust").text, HasSubstr("the ticket is not valid here"));
  EXPECT_EQ(find(found, "trust").advice, "ask for a new ticket");
  found = examine([](wire::Ticket& ticket) { ticket.expires = 1000000000; });
  EXPECT_THAT(find(found, "ticket").text, HasSubstr("expired 2001-09-09 01:46 UTC"));
  EXPECT_EQ(found.verdict(), Verdict::kBad);
}

TEST_F(DoctorTest, WhoeverAnswersAndIsNotRookeryIsNoticed) {
  const auto listener = transport_->listen("127.0.0.1:0");
  const Examination found = examine([&](wire::Ticket& ticket) { ticket.addresses = {listener->address()}; });
  EXPECT_EQ(find(found, "port").verdict, Verdict::kGood);
  EXPECT_EQ(find(found, "trust").verdict, Verdict::kBad);
  EXPECT_THAT(find(found, "trust").advice, HasSubstr("check that it is Rookery"));
}

TEST(RouteTest, KnowsWhichAddressesOthersCanDial) {
  for (const char* address : {"10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.5", "100.64.0.1", "127.0.0.1",
                              "169.254.1.1", "::1", "fe80::1", "fd00::1"}) {
    EXPECT_TRUE(net::is_private(address)) << address;
  }
  for (const char* address : {"8.8.8.8", "172.32.0.1", "100.128.0.1", "2001:db8::1", "no address"}) {
    EXPECT_FALSE(net::is_private(address)) << address;
  }
  EXPECT_TRUE(net::is_loopback("127.0.0.2"));
  EXPECT_EQ(net::join_host_port("::1", 7), "[::1]:7");
  EXPECT_EQ(net::join_host_port("1.2.3.4", 7), "1.2.3.4:7");
  EXPECT_EQ(net::route_to("127.0.0.1").interface, "lo");
}

}  // namespace
}  // namespace rookery::measure
