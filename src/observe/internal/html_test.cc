#include "observe/internal/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rookery::observe::internal {
namespace {

using testing::HasSubstr;

TEST(HtmlTest, NoTextIsMarkup) {
  EXPECT_EQ(html_of("</script><b a=\"1\" c='2'>&amp;"),
            "&lt;/script&gt;&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;");
  EXPECT_EQ(html_of("größe\xFF\x01"), "größe\xEF\xBF\xBD ");
}

TEST(HtmlTest, NumbersKeepAllTheirDigits) {
  EXPECT_EQ(value_html(60), "<data value=\"60\">60</data>");
  EXPECT_EQ(value_html(0.25), "<data value=\"0.25\">0.25</data>");
  EXPECT_EQ(value_html(2.4312891960144043),
            "<data value=\"2.4312891960144043\">2.4313</data> <span class=\"exact\">2.4312891960144043</span>");
  EXPECT_THAT(value_html(-0.00123456789), HasSubstr(">-0.0012346<"));
  EXPECT_THAT(value_html(2.39197397232), HasSubstr(">2.3920<"));
  EXPECT_THAT(value_html(13080.7359883), HasSubstr(">13081<"));
  EXPECT_THAT(value_html(123456.789), HasSubstr(">123457<"));
  EXPECT_THAT(value_html(1.2345678e-7), HasSubstr(">1.2346e-07<"));
  EXPECT_EQ(value_html(12345678901), "<data value=\"12345678901\">12345678901</data>");
}

TEST(HtmlTest, UnitsAreForPeople) {
  EXPECT_EQ(value_html(13221888, Unit::kBytes),
            "<data value=\"13221888\">12.6 MiB</data> <span class=\"exact\">13221888</span>");
  EXPECT_THAT(value_html(83.5, Unit::kSeconds), HasSubstr(">1 min 24 s<"));
  EXPECT_THAT(value_html(83.5, Unit::kSeconds), HasSubstr(">83.5<"));
  EXPECT_THAT(value_html(0.125, Unit::kShare), HasSubstr(">12.5 %<"));
  EXPECT_EQ(rounded(0, Unit::kSeconds), "0 s");
}

TEST(HtmlTest, AnyValueCanBeShown) {
  EXPECT_EQ(value_html(nullptr), "not a number");
  EXPECT_EQ(value_html(true), "yes");
  EXPECT_EQ(value_html("<b>"), "&lt;b&gt;");
  EXPECT_EQ(value_html(nlohmann::json::array({1, 2})), nothing_html());
  for (const Unit unit : {Unit::kBytes, Unit::kSeconds}) {
    for (const double number : {1e300, -1e300, 9e18, -1.0}) EXPECT_FALSE(rounded(number, unit).empty());
    EXPECT_EQ(rounded(std::numeric_limits<double>::quiet_NaN(), unit), "not a number");
  }
}

TEST(HtmlTest, TablesHaveHeadings) {
  Table table("All \"peers\"", {{"Peer"}, {"Steps"}, {"Where", true}});
  EXPECT_TRUE(table.is_empty());
  table.add({"a", "3", "here"});
  EXPECT_FALSE(table.is_empty());
  const std::string html = table.html();
  EXPECT_THAT(html, HasSubstr("<caption><span>All &quot;peers&quot;</span></caption>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"col\">Steps</th><th scope=\"col\" class=\"text\">Where</th>"));
  EXPECT_THAT(html, HasSubstr("<tr><th scope=\"row\">a</th><td>3</td><td class=\"text\">here</td></tr>"));
}

}  // namespace
}  // namespace rookery::observe::internal
