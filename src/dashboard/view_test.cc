#include "dashboard/view.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace rookery::dashboard {
namespace {

using testing::HasSubstr;

class ViewTest : public testing::Test {
 protected:
  ViewTest() {
    view_.run = {.name = "tales", .model = "gpt", .parameters = 10, .steps = 100, .phase = Phase::kTraining};
    view_.peer("attic").place = {.cluster = 0, .stage = 1, .begin = 2, .end = 4};
    view_.peer("attic").state = PeerView::State::kTraining;
    view_.peer("cellar");
  }

  View view_;
  Changes changes_;
};

TEST_F(ViewTest, StateHasEverything) {
  view_.add_step({.step = 1, .loss = 2.5, .seconds = 1});
  view_.add_event(1.5, "lost", "cellar", "is silent");
  view_.add_spans("attic", {{observe::ActivityKind::kForward, 1, 1.25}}, 2);
  view_.links[{"attic", "cellar"}] = {.kind = "ring", .bandwidth = 1e6};
  const Json state = state_of(view_, 2);
  EXPECT_EQ(state["run"]["phase"], "training");
  EXPECT_EQ(state["run"]["step"], 1);
  EXPECT_EQ(state["peers"][0]["name"], "attic");
  EXPECT_EQ(state["peers"][0]["layers"], Json::array({2, 4}));
  EXPECT_EQ(state["peers"][1]["cluster"], nullptr);
  EXPECT_EQ(state["peers"][1]["state"], "joining");
  EXPECT_EQ(state["series"]["rows"][0][2], 2.5);
  EXPECT_EQ(state["series"]["columns"].size(), state["series"]["rows"][0].size());
  EXPECT_EQ(state["events"][0]["peer"], "cellar");
  EXPECT_EQ(state["spans"]["attic"][0], Json::array({"forward", 1.0, 1.25}));
  EXPECT_EQ(state["links"][0]["use"], 0);
  EXPECT_EQ(state["latest"][2], 2.5);
}

TEST_F(ViewTest, LinksThatNoPlanHasAreThereWhileTheyCarrySomething) {
  LinkView& link = view_.links[{"attic", "cellar"}] = {.kind = "ring", .is_planned = false};
  link.rate.add(1, 0);
  link.rate.add(2, 1000);
  EXPECT_EQ(state_of(view_, 2)["links"].size(), 1);
  EXPECT_EQ(state_of(view_, 60)["links"].size(), 0);
}

TEST_F(ViewTest, LinksThatNoPlanHasComeAndGoWithWhatTheyCarry) {
  const auto shown = [&](double seconds) { return state_of(view_, seconds)["links"].size(); };
  std::uint64_t sum = 100'000'000;  // however much that was before
  view_.carried(1, "attic", "cellar", sum);
  for (int i = 2; i < 100; ++i) view_.carried(i, "attic", "cellar", sum += 10);
  EXPECT_TRUE(view_.links.empty());
  view_.carried(100, "attic", "cellar", sum += 200'000);
  EXPECT_EQ(shown(100), 1);
  EXPECT_GT(state_of(view_, 100)["links"][0]["rate"], 50'000);
  view_.carried(101, "attic", "cellar", sum += 10);
  EXPECT_EQ(shown(101), 1);  // it does carry something
  view_.carried(102, "attic", "cellar", sum);
  EXPECT_TRUE(view_.links.empty());
  for (int i = 103; i < 200; ++i) view_.carried(i, "attic", "cellar", sum);
  EXPECT_TRUE(view_.links.empty());
  view_.carried(200, "attic", "cellar", 5);  // begins anew
  view_.carried(201, "attic", "cellar", 100'000);
  EXPECT_EQ(shown(201), 1);
}

TEST_F(ViewTest, QuietLinksMakeRoom) {
  for (std::size_t i = 0; i < 2 * View::kMostLinks; ++i) {
    const double seconds = i < View::kMostLinks ? 1 : 100;  // nobody has said anything of the first meanwhile
    const std::string to = fmt::format("peer-{}", i);
    view_.carried(seconds, "attic", to, 0);
    view_.carried(seconds, "attic", to, 1 << 20);
  }
  EXPECT_LE(view_.links.size(), View::kMostLinks);
  EXPECT_EQ(state_of(view_, 100)["links"].size(), View::kMostLinks);
}

TEST_F(ViewTest, ChangesAreSaidOnce) {
  const auto first = changes_.since_last(view_, 1);
  ASSERT_TRUE(first);
  EXPECT_EQ((*first)["peers"].size(), 2);
  EXPECT_FALSE(changes_.since_last(view_, 2));

  view_.peer("cellar").state = PeerView::State::kReady;
  view_.add_step({.step = 1, .loss = 2, .seconds = 1});
  view_.add_event(1, "ready", "cellar", "");
  const auto second = changes_.since_last(view_, 3);
  ASSERT_TRUE(second);
  EXPECT_EQ((*second)["peers"], Json::array({Json{{"name", "cellar"}, {"state", "ready"}}}));  // nothing else of it
  EXPECT_EQ((*second)["series"]["rows"].size(), 1);
  EXPECT_FALSE((*second)["series"].contains("columns"));
  EXPECT_EQ((*second)["events"].size(), 1);
  EXPECT_EQ((*second)["latest"], (*second)["series"]["rows"][0]);
  EXPECT_EQ((*second)["run"]["step"], 1);
  EXPECT_FALSE(changes_.since_last(view_, 4));
}

// Whoever applies updates to a state comes to the next one.
TEST_F(ViewTest, UpdatesLeadToTheNextState) {
  changes_.since_last(view_, 0);
  Json known = state_of(view_, 0);
  for (std::int64_t i = 1; i <= 5000; ++i) {
    view_.add_step({.step = i, .loss = 1.0 / static_cast<double>(i), .seconds = 0.1 * static_cast<double>(i)});
    view_.peer(i % 2 == 0 ? "attic" : "cellar")
        .stepped(0.1 * static_cast<double>(i), static_cast<std::uint64_t>(i), 1, 2);
    if (i % 100 == 0) view_.add_event(1, "checkpoint", "", "");
    if (i % 7 != 0) continue;
    const auto update = changes_.since_last(view_, 0);
    ASSERT_TRUE(update);
    for (const Json& peer : update->value("peers", Json::array())) {
      for (Json& own : known["peers"]) {
        if (own["name"] == peer["name"]) own.update(peer);
      }
    }
    // However long the run, and however many steps a row stands for.
    ASSERT_TRUE(update->contains("latest"));
    EXPECT_EQ((*update)["latest"][0], i);
    EXPECT_EQ(brief_of(view_, 0)["series"]["rows"][0], (*update)["latest"]);
    for (const char* key : {"run", "plan", "latest"}) {
      if (update->contains(key)) known[key] = (*update)[key];
    }
    if (update->contains("series")) {
      const Json& series = (*update)["series"];
      if (series.contains("columns")) {
        known["series"] = series;
      } else {
        for (const Json& row : series["rows"]) known["series"]["rows"].push_back(row);
      }
    }
    for (const Json& event : update->value("events", Json::array())) known["events"].push_back(event);
  }
  changes_.since_last(view_, 0);
  const Json now = state_of(view_, 0);
  EXPECT_LE(now["series"]["rows"].size(), 2000);
  known["events"].clear();
  Json wanted = now;
  wanted["events"].clear();
  wanted["series"]["rows"].erase(wanted["series"]["rows"].size() - 1);
  if (known["series"]["rows"].size() > wanted["series"]["rows"].size()) {
    known["series"]["rows"].erase(known["series"]["rows"].size() - 1);
  }
  EXPECT_EQ(known["series"], wanted["series"]);
}

TEST_F(ViewTest, StrangersCannotFillIt) {
  for (int i = 0; i < 10'000; ++i) {
    PeerView& stranger = view_.peer(fmt::format("stranger-{}", i));
    stranger.state = PeerView::State::kRefused;
    stranger.say(std::string(100'000, 'x'));
    view_.add_event(i, "refused", fmt::format("stranger-{}", i), std::string(100'000, 'y'));
    view_.add_spans(
        "attic",
        std::vector<observe::ActivitySpan>(100, {observe::ActivityKind::kForward, double(i), double(i) + 0.01}),
        double(i));
  }
  EXPECT_LE(view_.peers().size(), 2048);
  EXPECT_TRUE(view_.peers().contains("attic"));
  EXPECT_LE(view_.events().size(), 500);
  EXPECT_LE(view_.spans().at("attic").size(), 4000);
  EXPECT_LT(state_of(view_, 0).dump().size(), std::size_t{16} << 20);
}

TEST_F(ViewTest, SpansOfLongAgoAreForgottenOfAll) {
  const auto shown = [&] { return state_of(view_, 0)["spans"]; };
  view_.add_spans("attic", {{observe::ActivityKind::kForward, 1, 2}}, 2);
  view_.add_spans("cellar", {{observe::ActivityKind::kForward, 1, 2}}, 2);
  view_.add_spans("attic", {{observe::ActivityKind::kForward, 50, 51}}, 51);
  EXPECT_EQ(shown()["cellar"].size(), 1);
  view_.add_spans("attic", {{observe::ActivityKind::kForward, 99, 100}}, 100);
  EXPECT_FALSE(shown().contains("cellar"));
  EXPECT_EQ(shown()["attic"].size(), 2);
  view_.add_spans("cellar", {{observe::ActivityKind::kForward, 1, 2}}, 100);  // comes late
  EXPECT_FALSE(shown().contains("cellar"));
  EXPECT_EQ((*changes_.since_last(view_, 100))["spans"].size(), 1);  // nor does anybody hear of it
}

TEST_F(ViewTest, PausesAreNoPartOfAStep) {
  view_.plan.emplace();
  double seconds = 0;
  for (std::int64_t i = 1; i <= 20; ++i) view_.add_step({.step = i, .loss = 1, .seconds = seconds += 0.5});
  view_.add_step({.step = 21, .loss = 1, .seconds = seconds += 1000});
  EXPECT_EQ(view_.plan->measured_step_seconds, 0.5);
  for (std::int64_t i = 22; i <= 60; ++i) view_.add_step({.step = i, .loss = 1, .seconds = seconds += 2});
  EXPECT_EQ(view_.plan->measured_step_seconds, 2);
}

TEST_F(ViewTest, LinksThatNobodyMeasuredAreWhatTheyWereSeenToCarry) {
  view_.links[{"attic", "cellar"}] = {.kind = "ring"};
  view_.links[{"cellar", "attic"}] = {.kind = "ring", .is_measured = true, .bandwidth = 5e6};
  view_.observed("attic", "cellar", 0, 0.01);
  view_.observed("cellar", "attic", 1e6, 0.01);
  view_.observed("attic", "nobody", 1e6, 0.01);
  Json links = state_of(view_, 1)["links"];
  EXPECT_EQ(links.size(), 2);
  EXPECT_EQ(links[0]["bandwidth"], nullptr);
  EXPECT_EQ(links[0]["latency"], 0.01);
  EXPECT_EQ(links[1]["bandwidth"], 5e6);
  view_.observed("attic", "cellar", 2e6, 0);
  links = state_of(view_, 1)["links"];
  EXPECT_EQ(links[0]["bandwidth"], 2e6);
  EXPECT_EQ(links[0]["latency"], 0.01);
}

TEST_F(ViewTest, RatesFollowSums) {
  Rate rate;
  EXPECT_EQ(rate.at(0), 0);
  rate.add(0, 1000);
  rate.add(0.5, 1500);
  rate.add(2, 5000);
  EXPECT_DOUBLE_EQ(rate.at(2), 2000);
  rate.add(3, 0);  // begins anew
  EXPECT_DOUBLE_EQ(rate.at(3), 2000);
  EXPECT_EQ(rate.at(100), 0);
}

TEST_F(ViewTest, BytesThatAreNoTextDoNoHarm) {
  view_.add_event(0, "lost", "cellar", "\xff\xfe broken");
  const auto update = changes_.since_last(view_, 0);
  EXPECT_NO_THROW(update->dump(-1, ' ', false, Json::error_handler_t::replace));
}

TEST_F(ViewTest, MetricsAreWhatPrometheusReads) {
  view_.peer("a \"quoted\\\" name\n").rounds_failed = 4;
  view_.add_step({.step = 3, .loss = 2.5, .seconds = 1, .tokens = 1200});
  const std::string page = metrics_of(view_, 1);
  EXPECT_THAT(page, HasSubstr("# TYPE rookery_loss gauge\nrookery_loss 2.5\n"));
  EXPECT_THAT(page, HasSubstr("rookery_tokens_total 1200\n"));
  EXPECT_THAT(page, HasSubstr("rookery_peers{state=\"training\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("rookery_peer_step{peer=\"a \\\"quoted\\\\\\\" name\\n\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("# TYPE rookery_peer_rounds_failed_total counter\n"));
  EXPECT_THAT(page, HasSubstr("rookery_peer_rounds_failed_total{peer=\"a \\\"quoted\\\\\\\" name\\n\"} 4\n"));
  EXPECT_THAT(page, HasSubstr("rookery_phase{phase=\"training\"} 1\n"));
}

}  // namespace
}  // namespace rookery::dashboard
