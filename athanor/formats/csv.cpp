#include "athanor/formats/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>
#include <utility>

#include "athanor/formats/bytes.h"

namespace athanor {
namespace {

constexpr uint64_t longest_table = uint64_t{1} << 30;

char separator_of(std::string_view first_line) {
  char best = ',';
  for (const char candidate : {';', '\t'})
    if (std::ranges::count(first_line, candidate) > std::ranges::count(first_line, best)) best = candidate;
  return best;
}

class CsvParser {
 public:
  CsvParser(std::string_view text, char separator, const std::string& name)
      : text_(text), separator_(separator), name_(name) {}

  bool at_end() const { return at_ == text_.size(); }
  size_t line() const { return line_; }

  /// The fields of the next line; one empty field for an empty line.
  std::vector<std::string> next_row() {
    row_line_ = line_;
    std::vector<std::string> fields;
    do fields.push_back(next_field());
    while (take(separator_));
    (void)take('\r');
    if (!at_end() && !take('\n')) fail("something follows a quoted field", "Put the whole field in quotes");
    ++line_;
    return fields;
  }

  [[noreturn]] void fail(const std::string& what, const std::string& hint) const {
    throw format_error(what, name_, fmt::format("line {}", row_line_), hint);
  }

 private:
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string next_field() {
    if (take('"')) return quoted_field();
    const size_t first = at_;
    while (!at_end() && text_[at_] != separator_ && text_[at_] != '\n') ++at_;
    size_t end = at_;
    if (end > first && text_[end - 1] == '\r' && (at_end() || text_[at_] == '\n')) --end;
    if (std::ranges::count(text_.substr(first, end - first), '"') > 0)
      fail("a quote stands inside a field",
           "Put the whole field in quotes, and write each quote in it twice");
    return std::string(text_.substr(first, end - first));
  }

  std::string quoted_field() {
    std::string field;
    for (;;) {
      if (at_end()) fail("a quote is not closed", "Write a quote at the end of the field");
      const char c = text_[at_++];
      if (c == '"' && !take('"')) return field;
      if (c == '\n') ++line_;
      field += c;
    }
  }

  std::string_view text_;
  char separator_;
  const std::string& name_;
  size_t at_ = 0, line_ = 1, row_line_ = 1;
};

/// Whether a first line looks like a row of values: most fields are numbers that do not count upwards, as
/// names of columns may do (years, wavelengths).
bool is_row_of_values(const std::vector<std::string>& fields) {
  std::vector<double> numbers;
  for (const std::string& field : fields) {
    double number = 0;
    const auto [end, failed] = std::from_chars(field.data(), field.data() + field.size(), number);
    if (failed == std::errc() && end == field.data() + field.size()) numbers.push_back(number);
  }
  return 2 * numbers.size() > fields.size() &&
         (numbers.size() == 1 ||
          std::ranges::adjacent_find(numbers, std::ranges::greater_equal()) != numbers.end());
}

}  // namespace

CsvTable read_csv(const std::filesystem::path& path) {
  return parse_csv(read_text_file(path, longest_table), path.string());
}

CsvTable parse_csv(std::string_view text, const std::string& name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // Excel marks UTF-8 with it
  CsvParser parser(text, separator_of(text.substr(0, text.find('\n'))), name);
  CsvTable table;
  while (!parser.at_end()) {
    std::vector<std::string> fields = parser.next_row();
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (table.columns.empty()) {
      if (is_row_of_values(fields))
        parser.fail("the first line has numbers, not the names of columns",
                    "Write a line of names above it, such as: width,height,label");
      std::set<std::string> seen;
      for (const std::string& column : fields) {
        if (column.empty()) parser.fail("a column has no name", "The first line must name all columns");
        if (!seen.insert(column).second)
          parser.fail(fmt::format("two columns are called '{}'", column), "Rename one");
      }
      table.columns = std::move(fields);
    } else if (fields.size() != table.columns.size()) {
      parser.fail(fmt::format("{} fields, where the first line has {}", fields.size(), table.columns.size()),
                  "Put fields that hold separators in quotes");
    } else {
      table.rows.push_back(std::move(fields));
    }
  }
  if (table.rows.empty())
    parser.fail("there are no rows below the names of the columns", "Write a row for each example");
  return table;
}

}  // namespace athanor
