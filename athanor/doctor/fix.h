// Doctor's own fixes: they change only the user's own files, so that each change can be undone.
//
// Actions of fixes (check.h), by the values of the finding:
//   set-variable    export {variable}={value} in Athanor's environment file
//   unset-variable  unset {variable} there
//   clear-cache     moves the file {cache_file} aside, to PATH.damaged
// The environment file (facts.h: environment_file) is read by a marked line at the end of the user's start
// file, which is copied to FILE.athanor-backup before that line is added.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "athanor/doctor/diagnosis.h"
#include "athanor/doctor/facts.h"

namespace athanor::doctor {

/// A change to one file, and what is needed to undo it. Paths are those of the examined machine.
struct Change {
  enum class Kind { write, move } kind = Kind::write;
  std::string path;
  std::string text;  // the complete new content; for a move: the new path
  std::string note;  // a description for people: "export A=1"
};

/// The changes that an action makes, all in own_files.h's files; none for an unknown action, if it is done
/// already, or if the user has no files of their own.
std::vector<Change> changes_of(const Facts& facts, const Result& result, const Offer& offer);

/// Makes changes, and undoes them unless `keep()` was called.
class Applied {
 public:
  /// Throws Error(io); then everything is as it was.
  Applied(const Machine& machine, const std::vector<Change>& changes);
  ~Applied();
  Applied(const Applied&) = delete;
  Applied& operator=(const Applied&) = delete;
  void keep() { undo_.clear(); }

 private:
  std::vector<std::function<void()>> undo_;
};

/// The first offer with an action, which --fix uses; nullptr for none.
const Offer* automatic(const std::vector<Offer>& offers);

}  // namespace athanor::doctor
