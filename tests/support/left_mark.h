// The mark that a process leaves behind if trying a candidate kills it.
#pragma once
#include <gtest/gtest.h>

#include <string>

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

}  // namespace athanor::testing
