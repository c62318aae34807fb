#include "observe/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <locale>
#include <map>
#include <regex.h>
#include <set>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rookery::observe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPanelWidth = 480;

struct Element {
  std::string tag;
  std::map<std::string, std::string> attributes{};
  std::string text{};

  double number(const std::string& name) const { return std::stod(attributes.at(name)); }
  bool has_class(const std::string& name) const {
    const auto found = attributes.find("class");
    return found != attributes.end() && (" " + found->second + " ").find(" " + name + " ") != std::string::npos;
  }
};

// What a POSIX pattern finds in a text, from left to right: each time the whole, and then its groups.
std::vector<std::vector<std::string>> found_in(const std::string& text, const char* pattern) {
  regex_t compiled;
  if (::regcomp(&compiled, pattern, REG_EXTENDED) != 0) throw std::runtime_error(fmt::format("pattern {}", pattern));
  std::vector<std::vector<std::string>> found;
  std::vector<regmatch_t> places(compiled.re_nsub + 1);
  for (const char* rest = text.c_str(); ::regexec(&compiled, rest, places.size(), places.data(), 0) == 0;) {
    auto& groups = found.emplace_back();
    for (const regmatch_t& place : places) {
      groups.push_back(place.rm_so < 0 ? "" : std::string(rest + place.rm_so, rest + place.rm_eo));
    }
    rest += std::max<regoff_t>(1, places[0].rm_eo);
    if (rest > text.c_str() + text.size()) break;
  }
  ::regfree(&compiled);
  return found;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::string unescaped(const std::string& text) {
  return replaced(replaced(replaced(text, "&lt;", "<"), "&gt;", ">"), "&amp;", "&");
}

// What stands before the next `end` in `text`, which then begins after it. Throws if there is none.
std::string take_until(std::string_view& text, std::string_view end) {
  std::string taken(text.substr(0, text.find(end)));
  text.remove_prefix(taken.size());
  if (text.empty()) throw std::runtime_error(fmt::format("no '{}' after '{}'", end, taken));
  text.remove_prefix(end.size());
  return taken;
}

std::string text_until_tag(std::string_view& text) {
  const std::string taken = take_until(text, "<");
  const std::string without = replaced(replaced(replaced(taken, "&lt;", ""), "&gt;", ""), "&amp;", "");
  if (without.find_first_of(">&") != std::string::npos) {
    throw std::runtime_error("not escaped: " + taken);
  }
  return unescaped(taken);
}

// The elements of a document in order of their beginnings, with the text between that and the next tag.
// Throws if the document is not well-formed.
std::vector<Element> elements_of(std::string_view svg) {
  std::vector<Element> elements;
  std::vector<std::string> open;
  text_until_tag(svg);
  while (true) {
    std::string inside = take_until(svg, ">");
    if (inside.starts_with('/')) {
      if (open.empty() || open.back() != inside.substr(1)) throw std::runtime_error("not open: " + inside);
      open.pop_back();
      if (open.empty()) break;
      text_until_tag(svg);
      continue;
    }
    const bool is_closed = inside.ends_with('/');
    if (is_closed) inside.pop_back();
    std::string_view rest = inside;
    Element element{std::string(rest.substr(0, rest.find(' ')))};
    rest.remove_prefix(element.tag.size());
    while (!rest.empty()) {
      if (!rest.starts_with(' ')) throw std::runtime_error("no attribute: " + inside);
      rest.remove_prefix(1);
      const std::string name = take_until(rest, "=\"");
      element.attributes[name] = take_until(rest, "\"");
    }
    if (!is_closed) open.push_back(element.tag);
    element.text = text_until_tag(svg);
    elements.push_back(element);
  }
  if (svg != "\n") throw std::runtime_error(fmt::format("after the end: {}", svg));
  return elements;
}

std::vector<Element> all_of(const std::string& svg, const std::string& tag, const std::string& with_class = "") {
  std::vector<Element> found = elements_of(svg);
  std::erase_if(found, [&](const Element& element) {
    return element.tag != tag || (!with_class.empty() && !element.has_class(with_class));
  });
  return found;
}

std::vector<Element> ticks_of(const std::string& svg, const std::string& anchor) {
  std::vector<Element> ticks = all_of(svg, "text", "tick");
  std::erase_if(ticks, [&](const Element& tick) { return tick.attributes.at("text-anchor") != anchor; });
  return ticks;
}
std::vector<Element> x_ticks(const std::string& svg) { return ticks_of(svg, "middle"); }
std::vector<Element> y_ticks(const std::string& svg) { return ticks_of(svg, "end"); }

std::vector<std::string> words_of(const std::vector<Element>& elements) {
  std::vector<std::string> words(elements.size());
  std::ranges::transform(elements, words.begin(), &Element::text);
  return words;
}

using Points = std::vector<std::pair<double, double>>;

// Where a group stands: "translate(480 20)".
std::pair<double, double> place_of(const Element& group) {
  const std::string transform = group.attributes.at("transform");
  return {std::stod(transform.substr(transform.find('(') + 1)), std::stod(transform.substr(transform.find(' ')))};
}

// The corners of a path, in pixels, and where it is interrupted.
struct Corners {
  Points points;
  std::size_t pieces = 0;
};

Corners corners_of(const Element& path) {
  Corners corners;
  for (const auto& corner : found_in(path.attributes.at("d"), "([ML])(-?[0-9.]+) (-?[0-9.]+)")) {
    if (corner[1] == "M") ++corners.pieces;
    corners.points.emplace_back(std::stod(corner[2]), std::stod(corner[3]));
  }
  return corners;
}

Chart chart_of(std::vector<Curve> curves) {
  return {.title = "Loss", .x = {.label = "step"}, .y = {.label = "nats"}, .curves = std::move(curves)};
}

Chart chart_of_points(Points points) { return chart_of({{"a curve", std::move(points)}}); }

TEST(PlotTest, IsOneSvgDocumentThatNeedsNothingElse) {
  const std::string svg = to_svg({chart_of_points({{0, 4}, {10, 2.5}}), chart_of({})});
  EXPECT_NO_THROW(elements_of(svg));
  EXPECT_THAT(all_of(svg, "svg"), SizeIs(1));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  for (const char* foreign : {"<script", "href", "url(", "@import", "<image"})
    EXPECT_THAT(svg, Not(HasSubstr(foreign)));
}

TEST(PlotTest, TellsScreenReadersWhatItShows) {
  Chart chart = chart_of({{"ours", {{0, 4}, {10, 2.5}}}, {"theirs", {{0, 5}, {8, 3}}}, {"nothing", {}}});
  chart.x.format = [](double step) { return fmt::format("step {}", step); };
  const std::vector<Element> elements = elements_of(to_svg({chart, {.title = "Speed"}}));
  ASSERT_GE(elements.size(), 3);
  EXPECT_EQ(elements[0].attributes.at("role"), "img");
  EXPECT_EQ(elements[1].tag, "title");
  EXPECT_EQ(elements[1].text, "Loss; Speed");
  EXPECT_EQ(elements[2].tag, "desc");
  EXPECT_EQ(elements[2].text,
            "Loss: nats over step. ours: 4 at step 0, 2.5 at step 10. theirs: 5 at step 0, 3 at step 8.\n"
            "Speed: no data.");
}

TEST(PlotTest, AnyTextIsFine) {
  std::string text = "a <b> & \"c\" \x01\xff\xed\xa0\x80\xef\xbf\xbf</svg>]]>";
  Chart chart{.title = text,
              .subtitle = text,
              .x = {.label = text, .format = [&](double) { return text; }},
              .y = {.label = text, .format = [&](double) { return text; }},
              .curves = {{text, {{0, 1}, {1, 2}}}},
              .marks = {{0.5, text}}};
  const std::string svg = to_svg({chart});
  EXPECT_NO_THROW(elements_of(svg));
  EXPECT_THAT(words_of(all_of(svg, "text", "subtitle")), ElementsAre(HasSubstr("a <b> & \"c\"  \uFFFD\uFFFD")));
  EXPECT_THAT(svg, HasSubstr("a &lt;b&gt; &amp; \"c\""));
  for (const char* forbidden : {"\x01", "\xff", "\xed\xa0", "\xef\xbf\xbf"}) {
    EXPECT_EQ(svg.find(forbidden), std::string::npos) << testing::PrintToString(forbidden);
  }
}

TEST(PlotTest, LongTextIsCutBetweenCharacters) {
  std::string title;
  for (int i = 0; i < 100; ++i) title += "é";
  const std::vector<std::string> shown = words_of(all_of(to_svg({{.title = title}}), "text", "title"));
  ASSERT_THAT(shown, SizeIs(1));
  EXPECT_THAT(found_in(shown.front(), "^(é){40,60}…$"), SizeIs(1)) << shown.front();
}

TEST(PlotTest, AxesHaveRoundTicks) {
  const std::string svg = to_svg({chart_of_points({{0, 0}, {1000, 0.5}})});
  EXPECT_THAT(words_of(x_ticks(svg)), ElementsAre("0", "200", "400", "600", "800", "1000"));
  EXPECT_THAT(words_of(y_ticks(svg)), ElementsAre("0", "0.1", "0.2", "0.3", "0.4", "0.5"));
}

TEST(PlotTest, LargeAndSmallTicksAreShort) {
  const std::string svg = to_svg({chart_of_points({{0, -2e-5}, {4e6, 2e-5}})});
  EXPECT_THAT(words_of(x_ticks(svg)), ElementsAre("0", "1e6", "2e6", "3e6", "4e6"));
  EXPECT_THAT(words_of(y_ticks(svg)), ElementsAre("-2e-5", "-1e-5", "0", "1e-5", "2e-5"));
}

TEST(PlotTest, TicksSayWhatTheAxisWants) {
  Chart chart = chart_of_points({{1, 0}, {3, 2}});
  chart.x.format = [](double value) { return fmt::format("{:.0f} h", value); };
  EXPECT_THAT(words_of(x_ticks(to_svg({chart}))), ElementsAre("1 h", "2 h", "3 h"));  // 1.5 h would be a second "2 h"
}

TEST(PlotTest, LogarithmicTicksArePowersOfTen) {
  Chart chart = chart_of_points({{1, 3}, {5000, 40}});
  chart.x.logarithmic = chart.y.logarithmic = true;
  const std::string svg = to_svg({chart});
  EXPECT_THAT(words_of(x_ticks(svg)), ElementsAre("1", "10", "100", "1000"));
  EXPECT_THAT(words_of(y_ticks(svg)), ElementsAre("5", "10", "20"));
}

TEST(PlotTest, NothingIsShownBelowZeroUnlessAValueIsThere) {
  const double bottom = 220 + 4;  // the base line is lower than the middle
  const std::string positive = to_svg({chart_of_points({{0, 0.1}, {1, 9}})});
  EXPECT_EQ(y_ticks(positive).at(0).text, "0");
  EXPECT_NEAR(y_ticks(positive).at(0).number("y"), bottom, 0.02);
  EXPECT_LT(y_ticks(to_svg({chart_of_points({{0, -0.1}, {1, 9}})})).at(0).number("y"), bottom - 5);
}

TEST(PlotTest, LinearAxesKeepDifferences) {
  const std::string svg = to_svg({chart_of_points({{0, 0}, {1, 10}, {3, 30}})});
  const Points at = corners_of(all_of(svg, "path", "line").at(0)).points;
  ASSERT_THAT(at, SizeIs(3));
  EXPECT_NEAR(at[2].first - at[1].first, 2 * (at[1].first - at[0].first), 0.03);
  EXPECT_NEAR(at[2].second - at[1].second, 2 * (at[1].second - at[0].second), 0.03);
  EXPECT_GT(at[0].second, at[1].second + 10);  // larger is higher
}

TEST(PlotTest, LogarithmicAxesKeepRatios) {
  Chart chart = chart_of_points({{1, 0.001}, {10, 0.01}, {1000, 1}});
  chart.x.logarithmic = chart.y.logarithmic = true;
  const Points at = corners_of(all_of(to_svg({chart}), "path", "line").at(0)).points;
  ASSERT_THAT(at, SizeIs(3));
  EXPECT_NEAR(at[2].first - at[1].first, 2 * (at[1].first - at[0].first), 0.03);
  EXPECT_NEAR(at[2].second - at[1].second, 2 * (at[1].second - at[0].second), 0.03);
}

TEST(PlotTest, APointOfACurveIsAtItsTicks) {
  const std::string svg = to_svg({chart_of_points({{0, 0}, {2, 4}, {5, 5}})});
  const auto corner = corners_of(all_of(svg, "path", "line").at(0)).points.at(1);
  const Element x = x_ticks(svg).at(2), y = y_ticks(svg).at(4);
  EXPECT_EQ(x.text, "2");
  EXPECT_EQ(y.text, "4");
  EXPECT_NEAR(x.number("x"), corner.first, 0.02);
  EXPECT_NEAR(y.number("y") - 4, corner.second, 0.02);  // the base line is lower than the middle
}

TEST(PlotTest, WhatIsNotFiniteBreaksTheLine) {
  const std::string svg =
      to_svg({chart_of_points({{0, 1}, {1, 2}, {2, kNan}, {3, 1}, {kInfinity, 2}, {5, 1}, {6, 2}, {7, -kInfinity}})});
  const Corners corners = corners_of(all_of(svg, "path", "line").at(0));
  EXPECT_EQ(corners.pieces, 2);
  EXPECT_THAT(corners.points, SizeIs(4));
  EXPECT_THAT(all_of(svg, "circle"), SizeIs(1));  // the lonely point at 3
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(PlotTest, WhatIsNotPositiveBreaksALogarithmicLine) {
  Chart chart = chart_of_points({{-1, 1}, {0, 1}, {1, 1}, {2, 2}, {3, 0}, {4, 3}, {5, -3}});
  EXPECT_THAT(corners_of(all_of(to_svg({chart}), "path", "line").at(0)).points, SizeIs(7));
  chart.x.logarithmic = chart.y.logarithmic = true;
  const std::string svg = to_svg({chart});
  EXPECT_THAT(corners_of(all_of(svg, "path", "line").at(0)).points, SizeIs(2));
  EXPECT_THAT(all_of(svg, "circle"), SizeIs(1));
}

TEST(PlotTest, WithoutPointsItSaysSo) {
  Chart marked = chart_of({});
  marked.marks = {{3, "a mark"}};
  for (const std::vector<Chart>& charts : std::vector<std::vector<Chart>>{
           {}, {Chart{}}, {marked}, {chart_of({{"empty", {}}})}, {chart_of_points({{1, kNan}, {kInfinity, 1}})}}) {
    const std::string svg = to_svg(charts);
    EXPECT_NO_THROW(elements_of(svg));
    EXPECT_THAT(words_of(all_of(svg, "text", "label")), testing::Contains("no data"));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
  EXPECT_THAT(to_svg({chart_of_points({{1, 2}})}), Not(HasSubstr("no data")));
}

TEST(PlotTest, AnyRangeHasAPicture) {
  for (const double low : {-1e200, -5.0, 0.0, 5e-324, 1e-200, 1.0, 7e15, 1e200, 1e308}) {
    for (const double high : {low, std::nextafter(low, kInfinity), low + 1, 2 * low, 1e200}) {
      Chart chart = chart_of_points({{low, low}, {high, high}});
      for (const bool logarithmic : {false, true}) {
        chart.x.logarithmic = chart.y.logarithmic = logarithmic;
        const std::string svg = to_svg({chart});
        EXPECT_NO_THROW(elements_of(svg));
        EXPECT_THAT(found_in(svg, "nan|inf"), SizeIs(0)) << low << " to " << high << "\n" << svg;
        for (const Element& line : all_of(svg, "path", "line")) {
          for (const auto& [x, y] : corners_of(line).points) {
            EXPECT_TRUE(x >= 0 && x <= kPanelWidth && y >= 0 && y <= 220) << low << " to " << high;
          }
        }
      }
    }
  }
}

TEST(PlotTest, ManyPointsAreThinnedEvenly) {
  Points points;
  for (int i = 0; i <= 100'000; ++i) points.emplace_back(i, i == 50'000 ? kNan : i % 2);
  const std::string svg = to_svg({chart_of_points(points)});
  const Corners corners = corners_of(all_of(svg, "path", "line").at(0));
  ASSERT_THAT(corners.points, SizeIs(2000));
  EXPECT_EQ(corners.pieces, 2);                     // although the point that breaks the line is not among them
  const std::vector<Element> ticks = x_ticks(svg);  // 0 to 100000
  EXPECT_NEAR(corners.points.front().first, ticks.front().number("x"), 0.02);
  EXPECT_NEAR(corners.points.back().first, ticks.back().number("x"), 0.02);
  const double step = (corners.points.back().first - corners.points.front().first) / 1999;
  for (std::size_t i = 1; i < 2000; ++i) {
    EXPECT_NEAR(corners.points[i].first - corners.points[i - 1].first, step, 0.03);
  }
}

TEST(PlotTest, CurvesDifferWithoutColours) {
  const std::string svg = to_svg({chart_of(std::vector<Curve>(64, {"peer", {{0, 1}, {1, 2}}}))});
  std::set<std::string> dashes_of_eight;
  std::set<std::pair<std::string, std::string>> looks;
  std::string colour;
  for (const Element& element : elements_of(svg)) {
    if (element.tag == "g" && element.attributes.contains("class")) colour = element.attributes.at("class");
    if (element.tag != "path" || !element.has_class("line")) continue;
    const std::string dashes = element.attributes.at("stroke-dasharray");
    if (looks.size() < 8) dashes_of_eight.insert(dashes);
    looks.emplace(colour, dashes);
  }
  EXPECT_THAT(dashes_of_eight, SizeIs(8));
  EXPECT_THAT(looks, SizeIs(64));
}

// As WCAG defines it, of two colours "#rrggbb".
double contrast(const std::string& a, const std::string& b) {
  const auto luminance = [](const std::string& colour) {
    const auto part = [&](std::size_t at) {
      const double share = std::stoi(colour.substr(at, 2), nullptr, 16) / 255.0;
      return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
  };
  const auto [dark, light] = std::minmax({luminance(a), luminance(b)});
  return (light + 0.05) / (dark + 0.05);
}

TEST(PlotTest, ColoursCanBeReadOnLightAndOnDark) {
  const std::string svg = to_svg({});
  const std::size_t dark = svg.find("@media");
  ASSERT_NE(dark, std::string::npos);
  for (const std::string& theme : {svg.substr(0, dark), svg.substr(dark)}) {
    const auto grounds = found_in(theme, "\\.ground\\{fill:(#[0-9a-f]{6})\\}");
    ASSERT_FALSE(grounds.empty());
    std::set<std::string> colours;
    for (const auto& found : found_in(theme, "[t ](\\.quiet|\\.c[0-7])?\\{color:(#[0-9a-f]{6})\\}")) {
      EXPECT_GE(contrast(found[2], grounds[0][1]), 4.5) << found[2];
      colours.insert(found[2]);
    }
    EXPECT_THAT(colours, SizeIs(10));  // of eight curves and two kinds of text
  }
}

struct Box {
  std::string text;
  double left, right, top, bottom;
};

// What a text takes if a character is on average 0.6 of the font's size wide.
Box box_of(const Element& text) {
  const auto characters = std::ranges::count_if(text.text, [](char c) { return (c & 0xC0) != 0x80; });
  const double size = text.number("font-size"), width = 0.6 * size * static_cast<double>(characters);
  const std::string anchor = text.attributes.at("text-anchor");
  const double before = anchor == "start" ? 0 : anchor == "middle" ? width / 2 : width;
  const double left = text.number("x") - before, y = text.number("y");
  return {text.text, left, left + width, y - 0.8 * size, y + 0.2 * size};
}

// The boxes of all texts of a chart. That of the y axis is turned to the left, in a group of its own.
std::vector<Box> boxes_of(const std::string& svg) {
  std::vector<Box> boxes;
  const std::vector<Element> elements = elements_of(svg);
  for (auto element = elements.begin(); element != elements.end(); ++element) {
    if (element->tag != "text") continue;
    const Box box = box_of(*element);
    const Element& before = *(element - 1);
    if (before.tag == "g" && before.attributes.contains("transform") && !before.has_class("chart")) {
      const auto [x, y] = place_of(before);
      boxes.push_back({box.text, x + box.top, x + box.bottom, y - box.right, y - box.left});
    } else {
      boxes.push_back(box);
    }
  }
  return boxes;
}

// Labels in all places where they may meet.
std::vector<Chart> crowded_charts() {
  const std::string long_text(300, 'x');
  std::vector<Chart> charts;
  for (const double last : {0.0, 1.0, 0.5}) {
    Chart chart{.title = long_text, .subtitle = long_text, .x = {.label = long_text}, .y = {.label = long_text}};
    for (int i = 0; i < 12; ++i) {
      chart.curves.push_back({i % 3 == 0 ? long_text : fmt::format("{}", i), {{0, 0}, {1, 1}, {1e5, last + 1e-3 * i}}});
      chart.marks.push_back({1e4 * i, i % 3 == 0 ? long_text : fmt::format("mark {}", i)});
    }
    charts.push_back(chart);
    chart.x.logarithmic = chart.y.logarithmic = true;
    charts.push_back(chart);
    chart.x.format = chart.y.format = [](double value) { return fmt::format("about {:.3f} of them", value); };
    charts.push_back(chart);
    chart.x.logarithmic = chart.y.logarithmic = false;
    charts.push_back(chart);
  }
  Chart crowd;
  for (int i = 0; i < 40; ++i) crowd.curves.push_back({fmt::format("peer {}", i), {{0, 0}, {1, i}}});
  charts.push_back(crowd);
  crowd.x.format = crowd.y.format = [=](double value) { return fmt::format("{}{}", value, long_text); };
  charts.push_back(crowd);
  charts.push_back(chart_of_points({{0.213, 2.1}, {0.214, 4.6}}));
  charts.push_back(chart_of({{"one", {{3, 0}}}, {"two", {{3, 0}}}}));
  return charts;
}

TEST(PlotTest, LabelsDoNotOverlap) {
  for (const Chart& chart : crowded_charts()) {
    const std::string svg = to_svg({chart});
    const std::vector<Box> boxes = boxes_of(svg);
    EXPECT_GE(boxes.size(), 5);
    const Element document = elements_of(svg).front();
    const double above = place_of(all_of(svg, "g", "chart").at(0)).second;
    for (auto a = boxes.begin(); a != boxes.end(); ++a) {
      EXPECT_TRUE(a->left >= 0 && a->right <= kPanelWidth) << a->text << ": " << a->left << " to " << a->right;
      EXPECT_TRUE(a->top >= -above && a->bottom <= document.number("height") - above) << a->text;
      for (auto b = a + 1; b != boxes.end(); ++b) {
        const bool overlap = a->left < b->right && b->left < a->right && a->top < b->bottom && b->top < a->bottom;
        EXPECT_FALSE(overlap) << a->text << " and " << b->text << "\n" << svg;
      }
    }
  }
}

TEST(PlotTest, NamesStandAtTheEndsOfTheirLines) {
  const std::string svg = to_svg({chart_of({{"low", {{0, 0}, {1, 0}}}, {"high", {{0, 0}, {1, 9}}}})});
  const std::vector<Element> names = all_of(svg, "text", "name"), lines = all_of(svg, "path", "line");
  ASSERT_THAT(names, SizeIs(2));
  ASSERT_THAT(lines, SizeIs(2));
  for (std::size_t i = 0; i < 2; ++i) {
    const auto end = corners_of(lines[i]).points.back();
    EXPECT_NEAR(names[i].number("y") - 4, end.second, 0.02);  // the base line is lower than the middle
    EXPECT_GT(names[i].number("x"), end.first);
  }
}

TEST(PlotTest, NamesThatCollideMoveApartEvenly) {
  std::vector<Curve> curves = {{"far", {{0, 0}, {1, 0}}}};
  for (const char* name : {"a", "b", "c"}) curves.push_back({name, {{0, 0}, {1, 5}}});
  curves.push_back({"top", {{0, 0}, {1, 10}}});
  const std::string svg = to_svg({chart_of(curves)});
  const std::vector<Element> names = all_of(svg, "text", "name"), lines = all_of(svg, "path", "line");
  ASSERT_THAT(names, SizeIs(5));
  const auto moved = [&](std::size_t i) {
    return names[i].number("y") - 4 - corners_of(lines[i]).points.back().second;
  };
  EXPECT_NEAR(moved(0), 0, 0.02);
  EXPECT_NEAR(moved(1), -14, 0.02);
  EXPECT_NEAR(moved(2), 0, 0.02);
  EXPECT_NEAR(moved(3), 14, 0.02);
  EXPECT_NEAR(moved(4), 0, 0.02);
}

TEST(PlotTest, MarksAreLinesWithLabels) {
  Chart chart = chart_of_points({{0, 1}, {8, 2}});
  chart.marks = {{4, "this swarm"}, {4, "the same"}, {10, "outside"}, {kNan, "nowhere"}};
  const std::string svg = to_svg({chart});
  EXPECT_THAT(words_of(all_of(svg, "text", "note")), ElementsAre("this swarm", "the same", "outside"));
  EXPECT_THAT(words_of(x_ticks(svg)), ElementsAre("0", "2", "4", "6", "8", "10"));
  const Points marks = corners_of(all_of(svg, "path", "mark").at(0)).points;
  ASSERT_THAT(marks, SizeIs(3));
  EXPECT_NEAR(marks[0].first, x_ticks(svg).at(2).number("x"), 0.02);
  const std::vector<Element> notes = all_of(svg, "text", "note");
  EXPECT_NEAR(notes[0].number("x"), marks[0].first, 0.02);
  EXPECT_LT(notes[1].number("y"), notes[0].number("y"));  // a row higher
}

TEST(PlotTest, ChartsStandInColumns) {
  const std::vector<Chart> charts(3, chart_of_points({{0, 1}, {8, 2}}));
  const auto places = [&](std::size_t columns) {
    Points found;
    for (const Element& chart : all_of(to_svg(charts, columns), "g", "chart")) found.push_back(place_of(chart));
    return found;
  };
  const auto size = [&](std::size_t columns) {
    const Element document = elements_of(to_svg(charts, columns)).front();
    return std::pair(document.number("width"), document.number("height"));
  };
  const double height = size(3).second;
  EXPECT_EQ(size(1), std::pair(kPanelWidth, 3 * height));
  EXPECT_EQ(size(2), std::pair(2 * kPanelWidth, 2 * height));
  EXPECT_EQ(size(9), std::pair(3 * kPanelWidth, height));
  const double above = places(1).at(0).second;
  EXPECT_THAT(places(1),
              ElementsAre(std::pair(0, above), std::pair(0, above + height), std::pair(0, above + 2 * height)));
  EXPECT_THAT(places(2), ElementsAre(std::pair(0, above), std::pair(kPanelWidth, above), std::pair(0, above + height)));
}

// "1.234,5", as in many countries.
class Comma : public std::numpunct<char> {
 protected:
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(PlotTest, TheSameChartsGiveTheSameBytes) {
  const std::vector<Chart> charts = crowded_charts();
  const std::string svg = to_svg(charts);
  const std::locale usual = std::locale::global(std::locale(std::locale(), new Comma));
  const std::string elsewhere = to_svg(charts);
  std::locale::global(usual);
  EXPECT_EQ(svg, elsewhere);
}

TEST(PlotTest, CoordinatesHaveAtMostTwoDecimals) {
  Chart chart = chart_of_points({{0, 0}, {1, 1. / 3}, {7, 1e-7}, {9, 1}});
  chart.marks = {{22. / 7, "pi"}};
  const std::string svg = to_svg({chart});
  const std::string drawing = svg.substr(svg.find("</style>"));
  EXPECT_FALSE(found_in(drawing, "\\.[0-9]{2}").empty());
  EXPECT_THAT(found_in(drawing, "\\.[0-9]{3}|[0-9]e-?[0-9]|-0[^-.0-9]"), SizeIs(0));
}

}  // namespace
}  // namespace rookery::observe
