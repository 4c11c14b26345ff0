#include "athanor/base/sqlite.h"

#include <sqlite3.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <optional>
#include <system_error>

#include "athanor/base/os/file.h"

namespace athanor {
namespace {

constexpr int patience_ms = 500;

// A process that has held the file for this long is likely to hold it longer, so it is not waited for again.
int stepped(sqlite3_stmt* statement) {
  const int code = sqlite3_step(statement);
  if (code == SQLITE_BUSY) sqlite3_busy_timeout(sqlite3_db_handle(statement), 0);
  return code;
}

// If SQLite may not create a file, it reports only that the file is missing. This finds the real reason.
std::optional<std::string> why_not_made(const std::filesystem::path& file) {
  std::error_code unknown;
  if (std::filesystem::exists(file, unknown) || unknown) return {};
  try {
    os::File(file, os::Open::write);
  } catch (const std::system_error& error) {
    return "its folder takes no new file: " + error.code().message();
  }
  return {};
}

}  // namespace

sqlite3* open_database(const std::filesystem::path& file, std::string* why) {
  std::error_code made;
  std::filesystem::create_directories(file.parent_path(), made);
  sqlite3* database = nullptr;
  if (sqlite3_open_v2(file.string().c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX,
                      nullptr) != SQLITE_OK) {
    const std::error_code said(sqlite3_system_errno(database), std::generic_category());
    if (why != nullptr)
      *why = made   ? file.parent_path().string() + ": " + made.message()
             : said ? why_not_made(file).value_or(said.message())
                    : sqlite3_errmsg(database);
    sqlite3_close(database);
    return nullptr;
  }
  sqlite3_busy_timeout(database, patience_ms);
  return database;
}

// sqlite3_close_v2, because a statement may still be open.
void close_database(sqlite3* database) { sqlite3_close_v2(database); }

DatabaseTrouble trouble_of(sqlite3* database) {
  using Kind = DatabaseTrouble::Kind;
  const int code = sqlite3_errcode(database);
  const auto kind = [&] {
    switch (code) {
      case SQLITE_OK:
      case SQLITE_ROW:
      case SQLITE_DONE:
        return Kind::none;
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
        return Kind::locked;
      case SQLITE_CORRUPT:
      case SQLITE_NOTADB:
        return Kind::damaged;
      default:
        return Kind::other;
    }
  }();
  return {kind, kind == Kind::none ? "" : sqlite3_errmsg(database)};
}

std::string find_damage(sqlite3* database) {
  SqlStatement statement(database, "PRAGMA integrity_check(1)");
  if (statement.step()) {
    const std::string found = statement.text(0);
    return found == "ok" ? "" : found;
  }
  const DatabaseTrouble trouble = trouble_of(database);
  return trouble.kind == DatabaseTrouble::Kind::damaged ? trouble.reason : "";
}

// https://www.sqlite.org/fileformat.html#the_database_header
bool is_database_head(std::string_view head) {
  if (head.size() < database_head) return true;
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(head[at]); };
  const auto number = [&](size_t at, size_t bytes) {
    uint32_t value = 0;
    for (size_t i = at; i < at + bytes; ++i) value = value << 8 | byte(i);
    return value;
  };
  const uint32_t page = number(16, 2);
  const std::string_view unused = head.substr(72, 20);
  return head.starts_with(std::string_view("SQLite format 3\0", 16)) &&
         (page == 1 || (page >= 512 && std::has_single_bit(page))) && byte(21) == 64 && byte(22) == 32 &&
         byte(23) == 32 && number(44, 4) <= 4 && number(56, 4) <= 3 &&
         unused.find_first_not_of('\0') == std::string_view::npos;
}

std::string database_head_of(const std::filesystem::path& file) {
  std::string head(database_head, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(stream.gcount()));
  return head;
}

sqlite3* open_foreign_database(const std::filesystem::path& file) {
  std::string name = "file:";
  for (const char c : file.string()) {
    constexpr char digits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '?' || c == '#' || c == '%' || c == ' ')
      name += {'%', digits[byte >> 4], digits[byte & 15]};
    else
      name += c;
  }
  sqlite3* database = nullptr;
  if (sqlite3_open_v2((name + "?immutable=1").c_str(), &database,
                      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_FULLMUTEX, nullptr) == SQLITE_OK)
    return database;
  sqlite3_close(database);
  return nullptr;
}

std::string read_blob(sqlite3* database, const char* table, const char* column, int64_t row, size_t most) {
  sqlite3_blob* blob = nullptr;
  if (sqlite3_blob_open(database, "main", table, column, row, 0, &blob) != SQLITE_OK) return {};
  std::string bytes(std::min(most, static_cast<size_t>(sqlite3_blob_bytes(blob))), '\0');
  if (sqlite3_blob_read(blob, bytes.data(), static_cast<int>(bytes.size()), 0) != SQLITE_OK) bytes.clear();
  sqlite3_blob_close(blob);
  return bytes;
}

bool run_sql(sqlite3* database, const std::string& commands) {
  if (database == nullptr) return false;
  const int code = sqlite3_exec(database, commands.c_str(), nullptr, nullptr, nullptr);
  if (code == SQLITE_BUSY) sqlite3_busy_timeout(database, 0);
  return code == SQLITE_OK;
}

SqlStatement::SqlStatement(sqlite3* database, const char* sql) {
  if (database == nullptr || sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr) != SQLITE_OK)
    statement_ = nullptr;
}

SqlStatement::~SqlStatement() { sqlite3_finalize(statement_); }

SqlStatement& SqlStatement::bind(const std::string& text) {
  if (statement_ != nullptr)
    sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  return *this;
}

SqlStatement& SqlStatement::bind_bytes(const std::string& bytes) {
  if (statement_ != nullptr)
    sqlite3_bind_blob64(statement_, ++bound_, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
  return *this;
}

SqlStatement& SqlStatement::bind(int64_t number) {
  if (statement_ != nullptr) sqlite3_bind_int64(statement_, ++bound_, number);
  return *this;
}

SqlStatement& SqlStatement::bind(double number) {
  if (statement_ != nullptr) sqlite3_bind_double(statement_, ++bound_, number);
  return *this;
}

bool SqlStatement::step() { return statement_ != nullptr && stepped(statement_) == SQLITE_ROW; }

bool SqlStatement::run() {
  if (statement_ == nullptr) return false;
  int code = SQLITE_ROW;
  while (code == SQLITE_ROW) code = stepped(statement_);
  return code == SQLITE_DONE;
}

std::string SqlStatement::text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return bytes == nullptr ? std::string()
                          : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

int64_t SqlStatement::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double SqlStatement::real(int column) const { return sqlite3_column_double(statement_, column); }

}  // namespace athanor
