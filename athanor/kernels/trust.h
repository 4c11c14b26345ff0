// Whether a device computes correctly. This is tested before it is first used with a driver and a version of
// Athanor, and remembered in athanor.db.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/device/device.h"

namespace athanor {

/// The result of examining a device.
struct Examination {
  std::vector<std::string> wrong;  // which op, and how: "sum(f32[17]) axes=[0]: element 0 of 1 is 3, not 4"
  int64_t checks = 0;              // results that were compared
  double seconds = 0;              // that it took
  bool right() const { return wrong.empty(); }
  /// Adds a line for an error. It has the error's hint, unless an earlier line has it.
  void add(const std::string& what, const Error& error);
};

/// Examines a device the first time that this is called for it, and refuses one that failed, now or on an
/// earlier day: throws Error(device) with what was wrong and what to do. Returns at once for the host, with
/// whose results others are compared, and for trusted devices. If several processes call it, one examines and
/// the others wait.
void require_examined(Device device);
/// How long this process waited for that, or for another process; 0 if the device was known before.
double examination_seconds(Device device);
/// Refuses a device that is known to have failed, and examines nothing: for plans that are only looked at.
void require_not_failed(Device device);

/// Whether devices are used without regard to their examination: `--trust`, or ATHANOR_TRUST=1.
bool trusting();
void set_trusting(bool trust);
/// For summaries: why the numbers of a trusted device may be wrong; "" if there is no reason.
std::string trust_note(Device device);

/// The remembered verdict of a device. Its key is the device's name, its driver, this version, and the
/// sources of the kernels.
std::string examination_key(Device device);
bool remembered_verdict(Device device, Examination& verdict);

struct FailedExamination {
  std::string device, driver, what;  // "llvmpipe (LLVM 15.0.6, 256 bits)", "OpenCL 3.0, driver 22.3.6", ...
};
/// All that athanor.db holds for this version, whether or not the device is still here. No device is asked.
std::vector<FailedExamination> failed_examinations();
void remember_verdict(Device device, const Examination& verdict);

/// Sets the function that examines devices. It is registered when the program starts.
using Examiner = std::function<Examination(Device)>;
void set_examiner(Examiner examiner);

/// Whether this thread is part of an examination, and so needs none.
bool examining();

/// While one exists, examining() returns `examines`. A new thread passes the value of the thread that started
/// it.
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
