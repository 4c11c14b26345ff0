// Marks of candidates that are tried: one that a process leaves behind if that kills it, and this process's.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "athanor/base/os/system.h"
#include "athanor/base/sqlite.h"
#include "athanor/kernels/cache.h"

namespace athanor::testing {

inline void leave_mark(const std::string& key, const std::string& candidate,
                       const std::string& process = "a process that has ended") {
  sqlite3* database = open_database(KernelCache::instance().file());
  ASSERT_NE(database, nullptr);
  EXPECT_TRUE(SqlStatement(database, "INSERT INTO marks VALUES(?, ?, ?)")
                  .bind_bytes(key)
                  .bind_bytes(candidate)
                  .bind_bytes(process)
                  .run());
  close_database(database);
}

/// How many candidates of the problem this process has marked.
inline int64_t our_marks(const std::string& key) {
  sqlite3* database = open_database(KernelCache::instance().file());
  int64_t count = -1;
  {
    SqlStatement statement(database, "SELECT count(*) FROM marks WHERE key=? AND process=?");
    if (statement.bind_bytes(key).bind_bytes(os::process_identity()).step()) count = statement.integer(0);
  }
  close_database(database);
  return count;
}

}  // namespace athanor::testing
