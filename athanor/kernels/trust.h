// Whether a device computes rightly: found out before it is first used with this driver and this version of
// Athanor, and remembered (in athanor.db).
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "athanor/device/device.h"

namespace athanor {

/// What examining a device came to.
struct Examination {
  std::vector<std::string> wrong;  // which op, and how: "sum(f32[17]) axes=[0]: element 0 of 1 is 3, not 4"
  int64_t checks = 0;              // results that were looked at
  double seconds = 0;              // that it took
  bool right() const { return wrong.empty(); }
};

/// Examines a device the first time that this is called for it, and refuses one that failed, now or on an
/// earlier day: throws Error(device) with what was wrong and what to do. Returns at once for the host, whose
/// results are what others are compared with, and where devices are trusted. Of several processes one
/// examines, and the others wait for it.
void require_examined(Device device);

/// Whether devices are used whatever an examination says: `--trust`, or ATHANOR_TRUST=1.
bool trusting();
void set_trusting(bool trust);
/// For summaries: why the numbers of a device that is trusted may be wrong; "" where nothing speaks against
/// them.
std::string trust_note(Device device);

/// What is remembered of a device, and what it is remembered by: its name, its driver, this version, and the
/// sources of the kernels.
std::string examination_key(Device device);
bool remembered_verdict(Device device, Examination& verdict);
void remember_verdict(Device device, const Examination& verdict);

/// How devices are examined from now on. One is registered when the program starts.
using Examiner = std::function<Examination(Device)>;
void set_examiner(Examiner examiner);

/// Whether what this thread does belongs to an examination: it then needs none.
bool examining();

/// While one lives, it does; `examines`: what the thread that made this one said of itself.
class ExaminationScope {
 public:
  explicit ExaminationScope(bool examines = true);
  ~ExaminationScope();
  ExaminationScope(const ExaminationScope&) = delete;
  ExaminationScope& operator=(const ExaminationScope&) = delete;

 private:
  bool before_;
};

}  // namespace athanor
