#include "dashboard/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "dashboard/client.h"

namespace rookery::dashboard {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

View some_view() {
  View view;
  view.run = {.name = "tales", .step = 0, .steps = 100, .phase = Phase::kTraining};
  view.plan = {.generation = 2, .clusters = 1, .predicted_step_seconds = 0.5};
  PeerView& peer = view.peer("attic");
  peer.state = PeerView::State::kTraining;
  peer.place = {.cluster = 0, .stage = 0, .begin = 0, .end = 6};
  peer.stepped(1, 7, 0.25, 0.125);
  view.add_step({.step = 7, .loss = 2.25, .seconds = 3});
  view.add_event(61, "lost", "cellar", "is silent");
  return view;
}

TEST(TextTest, SaysWhatIsGoingOn) {
  const auto lines = lines_of(brief_of(some_view(), 2), 120, 40);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("tales"), HasSubstr("training"), HasSubstr("7/100")));
  EXPECT_THAT(lines[1], AllOf(HasSubstr("loss 2.2500"), HasSubstr("generation 2"), HasSubstr("predicted 500 ms")));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("attic"), HasSubstr("0-5"), HasSubstr("250 ms"), HasSubstr("125 ms"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("lost"), HasSubstr("cellar is silent"))));
}

TEST(TextTest, ThoseWhoDoNotTrainComeFirstAndThenEachByItsPlace) {
  View view = some_view();
  const auto add = [&](const char* name, PeerView::State state, std::optional<PeerView::Place> place) {
    view.peer(name).state = state;
    view.peer(name).place = place;
  };
  add("barn", PeerView::State::kTraining, PeerView::Place{.cluster = 1, .stage = 1});
  add("cellar", PeerView::State::kTraining, PeerView::Place{.cluster = 1, .stage = 0});
  add("den", PeerView::State::kLost, PeerView::Place{.cluster = 2, .stage = 0});
  add("elm", PeerView::State::kLeft, {});
  add("farm", PeerView::State::kJoining, {});
  view.peer("barn").stands_in = true;
  std::string order;
  for (const std::string& line : lines_of(brief_of(view, 2), 120, 40)) {
    if (line.find("  ") != std::string::npos) order += line.substr(0, line.find("  ")) + ",";
  }
  EXPECT_THAT(order, HasSubstr("peer,den,farm,attic,cellar,barn (stands in),elm,"));
}

TEST(TextTest, SaysHowTheCopiesAgree) {
  View view = some_view();
  view.peer("attic").rounds_failed = 3;
  view.add_step({.step = 8, .loss = 2, .lr = 0.001, .consensus_distance = 0.25, .drift = 0.125});
  view.add_step({.step = 9, .loss = 2, .lr = 0.001});  // they are known of some steps alone
  EXPECT_EQ(lines_of(brief_of(view, 2), 120, 40)[2], "lr 0.001  distance 0.25  drift 0.125  rounds failed 3");
}

TEST(TextTest, SaysWhatIsKnownOfAPeer) {
  View view = some_view();
  PeerView& peer = view.peer("attic");
  peer.hardware = "a large one";
  peer.resident = 1 << 20;
  peer.planned = 2 << 20;
  peer.available = 4 << 20;
  peer.staleness = 2;
  for (int i = 0; i < 20; ++i) peer.say(fmt::format("line {}\x1b", i));
  const auto lines = lines_of_peer(brief_of(view, 2), "attic", 100, 40);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("attic"), HasSubstr("training"))));
  EXPECT_THAT(lines, Contains(HasSubstr("a large one")));
  EXPECT_THAT(lines, Contains(HasSubstr("1.0 MiB resident, 2.0 MiB planned, limit 4.0 MiB (free on its computer)")));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("staleness"), HasSubstr("2"))));
  EXPECT_EQ(lines.back(), "line 19");
  for (const std::size_t most : {1u, 5u, 20u}) {
    EXPECT_LE(lines_of_peer(brief_of(view, 2), "attic", 20, most).size(), most);
    EXPECT_THAT(lines_of_peer(brief_of(view, 2), "attic", 20, most), Each(SizeIs(testing::Le(20))));
  }
  EXPECT_EQ(lines_of_peer(brief_of(view, 2), "nobody", 100, 40).back(), "there is no peer nobody");
}

TEST(TextTest, FitsAnyTerminal) {
  View view = some_view();
  for (int i = 0; i < 200; ++i) view.peer(fmt::format("peer-{}", i));
  for (const std::size_t columns : {1u, 20u, 80u}) {
    for (const std::size_t most : {1u, 3u, 10u, 24u, 300u}) {
      const auto lines = lines_of(brief_of(view, 2), columns, most);
      EXPECT_LE(lines.size(), most);
      EXPECT_THAT(lines, Each(SizeIs(testing::Le(columns))));
    }
  }
}

TEST(TextTest, TerminalsObeyNobodyElse) {
  View view = some_view();
  view.run.name = "a\x1b[2Jb";
  view.add_event(1, "lost", "x", "\x1b]0;title\x07");
  view.add_event(1, "lost", "y", "a\xc2\x9b[2J\xc2\x80 caf\xc3\xa9 \xe2\x82\xac \xc3\x9b");  // é, €, Û
  view.add_event(1, "lost", "z", "a\x9b[2J");
  const auto lines = lines_of(brief_of(view, 2), 200, 40);
  for (const std::string& line : lines) EXPECT_THAT(line, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\xc2\x9b"))));
  EXPECT_THAT(lines, Contains(HasSubstr("y a [2J  caf\xc3\xa9 \xe2\x82\xac \xc3\x9b")));
  EXPECT_THAT(lines, Contains(HasSubstr("z a [2J")));
}

TEST(TextTest, DamagedInputIsNoError) {
  for (const char* text : {"{}", "[]", "null", R"({"run":{"step":"x"},"peers":[{"layers":["a","b"]}],"events":[{}]})",
                           R"({"peers":[{"name":"","log":"x"}],"events":"x"})",
                           R"({"plan":{"measured_step_seconds":1e300},"series":{"rows":[[1]],"columns":["loss"]}})"}) {
    EXPECT_NO_THROW(lines_of(Json::parse(text), 80, 24)) << text;
    EXPECT_NO_THROW(lines_of_peer(Json::parse(text), "", 80, 24)) << text;
  }
}

TEST(UrlTest, IsReadAsItWasPrinted) {
  EXPECT_EQ(parse_url("http://127.0.0.1:8080/#token=abc"), (Url{.host = "127.0.0.1", .port = "8080", .token = "abc"}));
  EXPECT_EQ(parse_url("https://[::1]:8443/#token=abc&certificate=AA:BB"),
            (Url{.host = "::1", .port = "8443", .encrypted = true, .token = "abc", .certificate = "AA:BB"}));
  EXPECT_EQ(parse_url("https://attic.local"), (Url{.host = "attic.local", .port = "443", .encrypted = true}));
  for (const char* wrong : {"", "attic", "ftp://attic/", "http://", "http://:80/"}) {
    EXPECT_THROW(parse_url(wrong), InputError) << wrong;
  }
}

}  // namespace
}  // namespace rookery::dashboard
