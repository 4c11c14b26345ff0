// SQLite files that keep what is worth keeping and can be done without: nothing here throws, and what cannot
// be opened, prepared or run gives no rows.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

struct sqlite3;
struct sqlite3_stmt;

namespace athanor {

/// Opens or makes a file, and its folder; nullptr where that cannot be. Other processes that write are waited
/// for. To be closed with close_database().
sqlite3* open_database(const std::filesystem::path& file);

void close_database(sqlite3* database);

/// Opens somebody else's file to read it as it is: no journal is looked at, nothing is made beside it.
/// nullptr where that cannot be.
sqlite3* open_foreign_database(const std::filesystem::path& file);

/// Some commands, separated by semicolons; whether all of them ran.
bool run_sql(sqlite3* database, const std::string& commands);

/// The first bytes, `most` of them, of what a row of a table has in a column of bytes or text; "" where there
/// is none. What is longer is not read.
std::string read_blob(sqlite3* database, const char* table, const char* column, int64_t row, size_t most);

/// A prepared statement. Its parameters (?) are bound in their order, once each.
class SqlStatement {
 public:
  SqlStatement(sqlite3* database, const char* sql);
  ~SqlStatement();
  SqlStatement(const SqlStatement&) = delete;
  SqlStatement& operator=(const SqlStatement&) = delete;

  SqlStatement& bind(const std::string& text);
  /// As bytes: what may hold zeros. Equal text and bytes are not equal to SQLite: use one of them for a
  /// column.
  SqlStatement& bind_bytes(const std::string& bytes);
  SqlStatement& bind(int64_t number);
  SqlStatement& bind(double number);

  /// To the next row; false where there is none.
  bool step();
  /// Runs it to its end; false where that failed.
  bool run();

  // Columns of the row, from 0. Text or bytes, as they are.
  std::string text(int column) const;
  int64_t integer(int column) const;
  double real(int column) const;

 private:
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

}  // namespace athanor
