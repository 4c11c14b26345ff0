// The mark of a candidate while it is tried.
#pragma once
#include <string>
#include <utility>

#include "athanor/kernels/cache.h"

namespace athanor {

/// Marks a candidate in athanor.db as long as this exists. An exception says nothing about the candidate, so
/// it takes the mark away too: only the mark of a process that ends meanwhile stays.
class Marked {
 public:
  Marked(std::string key, std::string candidate) : key_(std::move(key)), candidate_(std::move(candidate)) {
    KernelCache::instance().mark(key_, candidate_);
  }
  ~Marked() { KernelCache::instance().unmark(key_, candidate_); }
  Marked(const Marked&) = delete;
  Marked& operator=(const Marked&) = delete;

 private:
  std::string key_, candidate_;
};

}  // namespace athanor
