// SQLite files for data that Athanor can do without. Nothing here throws: a file that cannot be opened, or a
// statement that cannot be prepared or run, has no rows.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace athanor {

/// Opens or creates a file and its folder; nullptr if this fails, with the reason in `why`. Statements wait
/// half a second for other processes that write; after one such wait has failed, they do not wait again.
/// Close it with close_database().
sqlite3* open_database(const std::filesystem::path& file, std::string* why = nullptr);

/// Why the last statement failed.
struct DatabaseTrouble {
  enum class Kind { none, locked, damaged, other } kind = Kind::none;
  std::string reason;  // SQLite's: "database is locked"
};
DatabaseTrouble trouble_of(sqlite3* database);

/// The first fault that SQLite's integrity check finds in a file; "" if there is none, or if another process
/// has locked the file. Reads the whole file.
std::string find_damage(sqlite3* database);

/// A database begins with these bytes, which say its format.
constexpr size_t database_head = 100;
/// False if SQLite never writes such a beginning. It looks at fewer fields itself, and takes a head that was
/// overwritten for one of another version. Fewer bytes are taken for a file that was just created.
bool is_database_head(std::string_view head);
/// The beginning of a file, or all of a shorter one. Call it before SQLite opens the file: closing the file
/// later would release SQLite's locks.
std::string database_head_of(const std::filesystem::path& file);

void close_database(sqlite3* database);

/// Opens another program's file for reading as it is: ignores journals and creates no files. Returns nullptr
/// if that is not possible.
sqlite3* open_foreign_database(const std::filesystem::path& file);

/// Runs commands, separated by semicolons. Returns whether all of them ran.
bool run_sql(sqlite3* database, const std::string& commands);

/// The first `most` bytes of a column of bytes or text, in one row of a table; "" if there is none. The rest
/// is not read.
std::string read_blob(sqlite3* database, const char* table, const char* column, int64_t row, size_t most);

/// A prepared statement. Bind its parameters (?) in their order, once each.
class SqlStatement {
 public:
  SqlStatement(sqlite3* database, const char* sql);
  ~SqlStatement();
  SqlStatement(const SqlStatement&) = delete;
  SqlStatement& operator=(const SqlStatement&) = delete;

  SqlStatement& bind(const std::string& text);
  /// Binds bytes, which may contain zeros. SQLite does not treat equal text and bytes as equal, so use only
  /// one of them for a column.
  SqlStatement& bind_bytes(const std::string& bytes);
  SqlStatement& bind(int64_t number);
  SqlStatement& bind(double number);

  /// Goes to the next row; false if there is none.
  bool step();
  /// Runs the statement to its end; false if that fails.
  bool run();

  // Columns of the current row, from 0. text() returns text or bytes unchanged.
  std::string text(int column) const;
  int64_t integer(int column) const;
  double real(int column) const;

 private:
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

}  // namespace athanor
