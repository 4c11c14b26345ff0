#include "athanor/backends/cpu/loops/steps.h"

#include "athanor/backends/cpu/loops/tables.h"
#include "athanor/backends/cpu/loops/targets.h"
#include "hwy/targets.h"

namespace athanor::loops {

StepFn find_step(Opcode op, DType in, DType out) {
  if (op == Opcode::random_uniform) return random_step();
  if (op == Opcode::cast) return cast_step(in, out);
  if (StepFn fn = logic_step(op, in)) return fn;
  if (StepFn fn = math_step(op, in)) return fn;
  return arithmetic_step(op, in);
}

ReduceFns find_reduce(Prim prim, DType type) { return reduce_steps(prim, type); }

const char* isa() {
  const int64_t best = hwy::SupportedTargets() & HWY_TARGETS;
  switch (best & -best) {  // a lower bit is a better instruction set
    case HWY_AVX3:
      return "avx512";
    case HWY_AVX2:
      return "avx2";
    case HWY_SCALAR:
    case HWY_EMU128:
      return "scalar";
    default:
      return hwy::TargetName(best & -best);
  }
}

void limit_isa(std::string_view name) {
  int64_t targets = 0;  // no limit
  if (name == "avx2") targets = HWY_AVX2 | HWY_STATIC_TARGET;
  if (name == "scalar") targets = HWY_STATIC_TARGET;
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace athanor::loops
