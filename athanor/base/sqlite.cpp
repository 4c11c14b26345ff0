#include "athanor/base/sqlite.h"

#include <sqlite3.h>

#include <algorithm>

namespace athanor {

sqlite3* open_database(const std::filesystem::path& file) {
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  sqlite3* database = nullptr;
  if (sqlite3_open_v2(file.string().c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX,
                      nullptr) != SQLITE_OK) {
    sqlite3_close(database);
    return nullptr;
  }
  sqlite3_busy_timeout(database, 2000);
  return database;
}

void close_database(sqlite3* database) { sqlite3_close(database); }

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
  return database != nullptr &&
         sqlite3_exec(database, commands.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
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

bool SqlStatement::step() { return statement_ != nullptr && sqlite3_step(statement_) == SQLITE_ROW; }

bool SqlStatement::run() {
  if (statement_ == nullptr) return false;
  int code = SQLITE_ROW;
  while (code == SQLITE_ROW) code = sqlite3_step(statement_);
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
