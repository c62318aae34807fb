#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace rookery::observe::internal {

// Pieces of a page. Functions and members that end in `html` are markup; everything else is text and becomes harmless.

// Any text as the content of an element, or of an attribute in double quotes.
std::string html_of(const std::string& text);

enum class Unit { kNone, kBytes, kSeconds, kShare };

// A value of a JSON file: with all its digits, and, if it has a unit, first in a form for people. Of a list or an
// object there is nothing to show.
std::string value_html(const nlohmann::json& value, Unit unit = Unit::kNone);

// The same for a number that was computed: rounded.
std::string rounded(double number, Unit unit);

// What a table shows where there is nothing.
std::string nothing_html();

struct Column {
  std::string head_html{};
  bool is_text = false;  // else numbers, which are aligned at the right
};

// A table with a heading for each column and each row. On a narrow screen it can be moved sideways.
class Table {
 public:
  // `caption` says what the table shows.
  Table(std::string caption, std::vector<Column> columns);

  // Requires: a cell for each column. The first is the heading of the row.
  void add(const std::vector<std::string>& cells_html);

  bool is_empty() const { return rows_html_.empty(); }
  std::string html() const;

 private:
  std::string caption_;
  std::vector<Column> columns_;
  std::string rows_html_;
};

// A part of the page with a heading, which a link to #id finds.
std::string section_html(const std::string& id, const std::string& heading, const std::string& content_html);

}  // namespace rookery::observe::internal
