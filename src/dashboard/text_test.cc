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
  for (const std::string& line : lines_of(brief_of(view, 2), 200, 40)) EXPECT_THAT(line, Not(HasSubstr("\x1b")));
}

TEST(TextTest, DamagedInputIsNoError) {
  for (const char* text : {"{}", "[]", "null", R"({"run":{"step":"x"},"peers":[{"layers":["a","b"]}],"events":[{}]})",
                           R"({"plan":{"measured_step_seconds":1e300},"series":{"rows":[[1]],"columns":["loss"]}})"}) {
    EXPECT_NO_THROW(lines_of(Json::parse(text), 80, 24)) << text;
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
