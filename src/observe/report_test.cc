#include "observe/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/file.h"
#include "observe/testing/made_up_run.h"

namespace rookery::observe {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr const char* kHostile = "</script><b onclick=\"x()\">'&\x01\xFF";

// The tags of a page in order: "table", "/table". Throws if they do not nest, or something is not escaped.
std::vector<std::string> tags_of(std::string_view page) {
  const std::set<std::string> childless = {"meta", "link", "wbr", "!DOCTYPE"};
  std::vector<std::string> tags, open;
  while (!page.empty()) {
    const std::size_t begin = std::min(page.find('<'), page.size()), stray = page.find('>');
    if (stray < begin && (open.empty() || open.back() != "style")) throw std::runtime_error("a stray >");
    page.remove_prefix(begin);
    if (page.empty()) break;
    const std::size_t end = page.find('>');
    if (end == std::string_view::npos) throw std::runtime_error("a tag without an end");
    const std::string inside(page.substr(1, end - 1));
    if (std::ranges::count(inside, '"') % 2 != 0) throw std::runtime_error("quotes: " + inside);
    page.remove_prefix(end + 1);
    const std::string tag = inside.substr(0, inside.find(' '));
    tags.push_back(tag);
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) throw std::runtime_error("not open: " + tag);
      open.pop_back();
    } else if (!inside.ends_with('/') && !childless.contains(tag)) {
      open.push_back(tag);
    }
  }
  if (!open.empty()) throw std::runtime_error("still open: " + open.back());
  return tags;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++found;
  return found;
}

class ReportTest : public MadeUpRuns {
 protected:
  ReportedRun run(const std::string& name, KeyValues settings = {}) const {
    return {.name = name, .files = read_run(folder_ / name), .settings = std::move(settings)};
  }

  // A swarm of two that has come to its end.
  void write_finished(const std::string& name, int last) const {
    write(
        name, "metrics.jsonl",
        steps(1, last - 1) +
            fmt::format("{{\"step\":{0},\"loss\":0.1234567890123,\"seconds\":{1},\"step_seconds\":0.4,\"samples\":{2},"
                        "\"tokens\":{3},\"eval_loss\":0.3333333333333,\"eval_accuracy\":0.5,"
                        "\"consensus_distance\":0.01}}\n",
                        last, 0.5 * last, 16 * last, 1000 * last));
    write(name, "peers/peer-0.jsonl", steps(1, last));
    write(name, "peers/peer-1.jsonl", steps(1, last));
    write(name, "summary.json",
          fmt::format(R"({{"final_loss": 0.1234567890123, "eval_loss": 0.3333333333333, "steps": {},
               "peak_memory_bytes": 104857600, "bytes_sent": 123456789, "rounds_failed": 2, "samples_left_out": 48,
               "exposed_communication_share": 0.0625, "identical_copies": true, "expelled": ["mallory"],
               "predicted_step_seconds": 0.44, "measured_step_seconds": 0.4, "wall_seconds": 123.5,
               "left_out": [{{"cluster": 1, "first_step": 3, "last_step": 5}}],
               "peers": [{{"name": "peer-0", "busy_share": 0.75, "peak_memory_bytes": 104857600, "bytes_sent": 7}},
                         {{"name": "peer-1", "busy_share": 0.625, "peak_memory_bytes": 1048576}}]}})",
                      last));
  }
};

TEST_F(ReportTest, IsAPageThatNeedsNothingElse) {
  write_finished("a", 20);
  const std::string page = to_html({.runs = {run("a")}});
  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>\n<html lang=\"en\">"));
  EXPECT_THAT(page, HasSubstr("content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\""));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(page, HasSubstr("@media print"));
  for (const std::string& tag : tags_of(page)) {
    EXPECT_THAT((std::set<std::string>{"script", "img", "iframe", "object", "form", "base"}),
                Not(testing::Contains(tag)));
  }
  EXPECT_EQ(count(page, "href=\""), count(page, "href=\"#") + 1);  // and an empty icon
  EXPECT_EQ(count(page, "http://"), count(page, "xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(page, Not(HasSubstr("https://")));
  EXPECT_EQ(page, to_html({.runs = {run("a")}}));
}

TEST_F(ReportTest, HasTheNumbersOfTheFiles) {
  write_finished("a", 20);
  const std::string page = to_html({.runs = {run("a")}});
  for (const char* number : {"0.1234567890123", "0.3333333333333", "104857600", "123456789", "0.0625", "123.5", "0.75",
                             "0.625", "1048576", "0.44", "0.4"}) {
    EXPECT_THAT(page, HasSubstr(fmt::format("value=\"{}\"", number)));
  }
  EXPECT_THAT(page, HasSubstr("100.0 MiB"));
  EXPECT_THAT(page, HasSubstr("+10.0 %"));  // the prediction was too long
  EXPECT_THAT(page, HasSubstr("mallory"));
  EXPECT_THAT(page, HasSubstr("steps 3 to 5 of cluster 1"));
  EXPECT_THAT(page, HasSubstr("finished after 20 steps"));
  EXPECT_THAT(page, HasSubstr("aria-label=\"compute "));
}

TEST_F(ReportTest, EveryTableIsForEveryReader) {
  write_finished("a", 20);
  const std::string page = to_html({.runs = {run("a", {{"train.lr", "1"}})}, .defaults = {{"train.lr", "2"}}});
  const std::size_t tables = count(page, "<table>");
  EXPECT_GE(tables, 5u);
  EXPECT_EQ(count(page, "<caption>"), tables);
  EXPECT_EQ(count(page, "<th>"), 0u);  // all have a scope
  EXPECT_EQ(count(page, "<figure>"), count(page, "<figcaption>"));
  EXPECT_EQ(count(page, "<h1>"), 1u);
}

TEST_F(ReportTest, NoTextOfARunIsMarkup) {
  const std::string hostile = "</script><b onclick=\\\"x()\\\">'&";  // in JSON
  write("a", "metrics.jsonl", steps(1, 3));
  write("a", "summary.json",
        fmt::format(R"({{"final_loss": "{0}", "{0}": 1, "expelled": ["{0}"], "left_out": ["{0}"], "repeated": [{{}}],
                        "predicted_step_seconds": "{0}", "peers": [{{"name": "{0}", "busy_share": "{0}",
                        "layers": ["{0}", 2], "cluster": "{0}"}}, 3, {{"name": 7}}]}})",
                    hostile));
  write("a", "events.jsonl",
        fmt::format("{{\"seconds\":1,\"step\":1,\"event\":\"{0}\",\"peer\":\"{0}\",\"text\":\"{0}\"}}\n", hostile));
  write("a", "peers/<b>.jsonl", steps(1, 3));
  ReportedRun own = run("a", {{kHostile, kHostile}});
  own.name = kHostile;
  own.files.root = kHostile;
  ReportedRun other = own;
  other.name = "b";
  for (const Report& report : {Report{.runs = {own}}, Report{.runs = {own, other}, .defaults = own.settings}}) {
    const std::string page = to_html(report);
    const std::vector<std::string> tags = tags_of(page);  // or it throws
    EXPECT_THAT(tags, Not(testing::Contains("script")));
    EXPECT_THAT(page, Not(HasSubstr("<b onclick")));
    EXPECT_THAT(page, Not(HasSubstr("</script>")));
    EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;b onclick=&quot;x()&quot;&gt;&#39;&amp;"));
  }
}

TEST_F(ReportTest, ARunWithoutAStepSaysSo) {
  write("a", "metrics.jsonl", "");
  const Report report{.runs = {run("a")}};
  EXPECT_THAT(charts_of(report), IsEmpty());
  const std::string page = to_html(report);
  tags_of(page);
  EXPECT_THAT(page, HasSubstr("no step was done yet"));
  EXPECT_THAT(page, HasSubstr("No step has been done yet."));
  EXPECT_THAT(page, HasSubstr("None were recorded."));
}

TEST_F(ReportTest, AStepIsEnough) {
  write("a", "metrics.jsonl", steps(1, 1));
  const std::vector<Chart> charts = charts_of({.runs = {run("a")}});
  ASSERT_FALSE(charts.empty());
  EXPECT_THAT(charts[0].curves[0].points, ElementsAre(std::pair(1.0, 1.0)));
  const auto rate = std::ranges::find_if(charts, [](const Chart& c) { return c.title.starts_with("Tokens"); });
  ASSERT_NE(rate, charts.end());
  EXPECT_THAT(rate->curves[0].points, ElementsAre(std::pair(1.0, 2000.0)));  // 1000 tokens in half a second
  tags_of(to_html({.runs = {run("a")}}));
}

TEST_F(ReportTest, RunsAreLaidOverEachOther) {
  write_finished("a", 20);
  write("b", "metrics.jsonl", steps(1, 7));
  const std::vector<Chart> charts = charts_of({.runs = {run("a"), run("b")}});
  std::vector<std::string> titles;
  for (const Chart& chart : charts) {
    titles.push_back(chart.title);
    ASSERT_EQ(chart.curves.size(), 2u);  // also where one has no points, so that colours stay
    EXPECT_EQ(chart.curves[0].name, "a");
    EXPECT_EQ(chart.curves[1].name, "b");
  }
  EXPECT_THAT(titles, ElementsAre("Training loss by step", "Evaluation loss by step", "Training loss by time",
                                  "Evaluation loss by time", "Training loss by samples", "Evaluation loss by samples",
                                  "Evaluation accuracy", "Step time", "Tokens per second", "Distance of the copies"));
  EXPECT_EQ(charts[0].curves[0].points.size(), 20u);
  EXPECT_EQ(charts[0].curves[1].points.size(), 7u);
  EXPECT_EQ(charts[2].curves[1].points.back(), std::pair(3.5, 1.0 / 7));
  EXPECT_EQ(charts[4].curves[1].points.back(), std::pair(112.0, 1.0 / 7));
  EXPECT_THAT(charts[1].curves[0].points, ElementsAre(std::pair(20.0, 0.3333333333333)));
  EXPECT_THAT(charts[1].curves[1].points, IsEmpty());

  const std::string page = to_html({.runs = {run("a"), run("b")}});
  EXPECT_THAT(page, HasSubstr("2 runs compared"));
  EXPECT_THAT(page, HasSubstr("there is no summary.json"));
  EXPECT_THAT(page, HasSubstr(fmt::format("value=\"{}\"", 1.0 / 7)));  // the last loss of the one that goes on
}

TEST_F(ReportTest, ARunAloneHasItsEvaluationsBesideItsLosses) {
  write_finished("a", 20);
  const std::vector<Chart> charts = charts_of({.runs = {run("a")}});
  ASSERT_EQ(charts[0].curves.size(), 2u);
  EXPECT_EQ(charts[0].curves[0].name, "training");
  EXPECT_EQ(charts[0].curves[1].name, "evaluation");
  EXPECT_THAT(charts[0].curves[1].points, ElementsAre(std::pair(20.0, 0.3333333333333)));
}

TEST_F(ReportTest, APeerAloneHasTheTimeOfItsRun) {
  write("a", "metrics.jsonl", "{\"step\":1,\"loss\":2,\"seconds\":4,\"step_seconds\":3}\n");
  write("a", "summary.json", "{\"peers\":[{\"name\":\"peer-0\",\"busy_share\":0.5}]}");
  const std::string page = to_html({.runs = {run("a")}});
  EXPECT_EQ(count(page, "aria-label=\"compute 75.0 %, waiting 0.0 %, other 25.0 %\""), 2u);  // of the run, of the peer
}

TEST_F(ReportTest, LossesThatAreNoNumbersBreakTheCurveAndAreCounted) {
  write("a", "metrics.jsonl", steps(1, 2) + "{\"step\":3,\"loss\":null,\"seconds\":1.5}\n" + steps(4, 5));
  const Report report{.runs = {run("a")}};
  EXPECT_TRUE(std::isnan(charts_of(report)[0].curves[0].points[2].second));
  EXPECT_THAT(to_html(report), HasSubstr("Steps whose loss is not a number</th><td>1</td>"));
}

TEST_F(ReportTest, RatesAreMeansOverPartsOfTheRun) {
  write("a", "metrics.jsonl", steps(1, 401));
  const std::vector<Chart> charts = charts_of({.runs = {run("a")}});
  const auto rate = std::ranges::find_if(charts, [](const Chart& c) { return c.title.starts_with("Tokens"); });
  ASSERT_NE(rate, charts.end());
  ASSERT_EQ(rate->curves[0].points.size(), 20u);
  EXPECT_EQ(rate->curves[0].points.back().first, 401);
  for (const auto& [step, tokens] : rate->curves[0].points) EXPECT_DOUBLE_EQ(tokens, 2000);
}

TEST_F(ReportTest, FailuresAreListedAndMarked) {
  write("a", "metrics.jsonl", steps(1, 9));
  write("a", "events.jsonl",
        "{\"seconds\":1.5,\"step\":3,\"event\":\"lost\",\"peer\":\"peer-1\",\"text\":\"is silent\"}\n"
        "{\"seconds\":2.5,\"step\":5,\"event\":\"returned\",\"peer\":\"peer-1\"}\n");
  const Report alone{.runs = {run("a")}};
  const std::vector<Chart> charts = charts_of(alone);
  EXPECT_THAT(charts[0].marks, IsEmpty());
  ASSERT_EQ(charts[1].marks.size(), 1u);
  EXPECT_EQ(charts[1].marks[0].x, 1.5);
  EXPECT_THAT(charts[1].subtitle, EndsWith("dashed lines are failures"));
  EXPECT_EQ(charts[1].marks[0].label, "lost peer-1");
  const std::string page = to_html(alone);
  EXPECT_THAT(page, HasSubstr("1 × lost; besides 1 × returned"));
  EXPECT_THAT(page, HasSubstr("<td>3</td><td class=\"text\">peer-1</td><td class=\"text\"><b>lost</b> is silent</td>"));
  EXPECT_THAT(page, HasSubstr("<b>returned</b> is back"));

  write("b", "metrics.jsonl", steps(1, 9));
  const Report both{.runs = {run("a"), run("b")}};
  EXPECT_EQ(charts_of(both).at(1).marks.at(0).label, "a: lost peer-1");
}

TEST_F(ReportTest, RoundsThatFailedAreFailuresToo) {
  write_finished("a", 20);
  EXPECT_THAT(to_html({.runs = {run("a")}}), HasSubstr("<li>a: 2 rounds failed</li>"));
  write("a", "events.jsonl", "{\"event\":\"round failed\",\"peer\":\"peer-1\",\"text\":\"2 so far\"}\n");
  EXPECT_THAT(to_html({.runs = {run("a")}}), HasSubstr("<li>a: 2 rounds failed</li>"));  // once
}

TEST_F(ReportTest, WhatWasWantedIsNoFailure) {
  write("a", "metrics.jsonl", steps(1, 9));
  write("a", "events.jsonl", "{\"seconds\":1,\"step\":1,\"event\":\"moves\"}\n");
  const Report report{.runs = {run("a")}};
  EXPECT_THAT(charts_of(report)[1].marks, IsEmpty());
  EXPECT_THAT(to_html(report), HasSubstr("<li>a: no failure, but 1 × moves</li>"));
}

TEST_F(ReportTest, TooManyFailuresAreNotMarked) {
  std::string events;
  for (int i = 0; i < 600; ++i) events += fmt::format("{{\"seconds\":{},\"step\":1,\"event\":\"lost\"}}\n", i);
  write("a", "metrics.jsonl", steps(1, 9));
  write("a", "events.jsonl", events);
  const Report report{.runs = {run("a")}};
  EXPECT_THAT(charts_of(report)[1].marks, IsEmpty());
  EXPECT_THAT(charts_of(report)[1].subtitle, EndsWith("too many failures to mark"));
  EXPECT_THAT(to_html(report), HasSubstr("600 × lost; the last 100 are not shown"));
}

TEST_F(ReportTest, SettingsAreShownWhereTheyDiffer) {
  write("a", "metrics.jsonl", steps(1, 2));
  write("b", "metrics.jsonl", steps(1, 2));
  const KeyValues defaults = {{"name", "run"}, {"train.lr", "0.001"}};
  const KeyValues first = {{"name", "run"}, {"train.lr", "0.5"}, {"peer.0.speed", "0.75"}};
  const KeyValues second = {{"name", "run"}, {"train.lr", "0.25"}};
  const auto row = [](const std::string& key, const std::vector<std::string>& values) {
    std::string cells = fmt::format("<th scope=\"row\"><code>{}</code></th>", key);
    for (const std::string& value : values) cells += fmt::format("<td class=\"text\">{}</td>", value);
    return cells;
  };
  const std::string both = to_html({.runs = {run("a", first), run("b", second)}, .defaults = defaults});
  EXPECT_EQ(count(both, row("train.lr", {"<code>0.5</code>", "<code>0.25</code>"})), 2u);  // and among all settings
  EXPECT_EQ(count(both, row("peer.0.speed", {"<code>0.75</code>", "<span class=\"nothing\">–</span>"})), 2u);
  EXPECT_EQ(count(both, row("name", {"<code>run</code>", "<code>run</code>"})), 1u);
  const std::string alone = to_html({.runs = {run("b", second)}, .defaults = defaults});
  EXPECT_EQ(count(alone, row("train.lr", {"<code>0.001</code>", "<code>0.25</code>"})), 2u);
  EXPECT_THAT(to_html({.runs = {run("b", defaults)}, .defaults = defaults}),
              HasSubstr("All settings are the defaults."));
  EXPECT_THAT(to_html({.runs = {run("a", first), run("b", first)}}), HasSubstr("All runs have the same settings."));
}

TEST_F(ReportTest, SaysHowARunEnded) {
  const auto state = [&](int last, const char* summary, const char* planned) {
    std::filesystem::remove_all(folder_ / "a");
    write("a", "metrics.jsonl", steps(1, last));
    if (summary != nullptr) write("a", "summary.json", summary);
    return state_of(run("a", {{"train.steps", planned}}));
  };
  EXPECT_EQ(state(5, "{\"steps\":5}", "5"), "finished after 5 steps");
  EXPECT_EQ(state(5, "{\"steps\":5}", "9"), "ended after step 5 of 9");  // by an interrupt
  EXPECT_EQ(state(5, nullptr, "9"), "goes on or was interrupted (there is no summary.json): the last is step 5 of 9");
  EXPECT_EQ(state(7, "{\"steps\":5}", "9"),  // it was resumed
            "goes on or was interrupted: the last is step 7 of 9, but summary.json is of step 5");
}

TEST(ReportNamesTest, AreAsShortAsTheyCanBe) {
  EXPECT_THAT(distinct_names({"/runs/a", "/runs/b/"}), ElementsAre("a", "b"));
  EXPECT_THAT(distinct_names({"/x/a", "/y/a", "/y/b"}), ElementsAre("x/a", "y/a", "b"));
  EXPECT_THAT(distinct_names({"/p/x/a", "/q/x/a", "/a"}), ElementsAre("p/x/a", "q/x/a", "/a"));
  EXPECT_THAT(distinct_names({"/x/a", "/x/./a", "/x/a/"}), ElementsAre("a", "a (2)", "a (3)"));
}

class ReportCsvTest : public ReportTest {
 protected:
  std::string csv_of(const std::vector<ReportedRun>& runs) const {
    write_csv({.runs = runs}, folder_ / "table.csv");
    return read_file(folder_ / "table.csv");
  }
};

TEST_F(ReportCsvTest, HasALineForEachStepOfAllRuns) {
  write("a", "metrics.jsonl", "{\"step\":1,\"loss\":0.1,\"pulled\":true}\n{\"step\":2,\"loss\":null}\n{\"step\":3,");
  write("b", "metrics.jsonl", "{\"step\":1,\"drift\":2,\"eval_loss\":0.30000000000000004,\"loss\":1}\n");
  EXPECT_EQ(csv_of({run("a"), run("b")}),
            "run,step,loss,eval_loss,drift,pulled\n"
            "a,1,0.1,,,true\n"
            "a,2,,,,\n"
            "b,1,1,0.30000000000000004,2,\n");
}

TEST_F(ReportCsvTest, WhatIsNoNumberOrHasAStrangeNameIsLeftOut) {
  write("a", "metrics.jsonl", "{\"step\":1,\"=1+1\":2,\"words\":\"=1+1\",\"list\":[1]}\n");
  ReportedRun own = run("a");
  own.name = "x,\"y\"\n";
  EXPECT_EQ(csv_of({own}), "run,step\n\"x,\"\"y\"\" \",1\n");
}

TEST_F(ReportCsvTest, HasAllStepsOfALongRun) {
  write("a", "metrics.jsonl", steps(1, 20000));
  const std::string table = csv_of({run("a")});
  EXPECT_EQ(std::ranges::count(table, '\n'), 20001);
  EXPECT_THAT(table, HasSubstr("\na,12345,"));
  EXPECT_THAT(table, EndsWith("\n"));
}

}  // namespace
}  // namespace rookery::observe
