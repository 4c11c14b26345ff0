// The tables that find_step and find_reduce look into, one for each file of loops; nullptr if there is no
// entry.
#pragma once
#include "athanor/backends/cpu/loops/steps.h"

namespace athanor::loops {

StepFn arithmetic_step(
    Opcode op, DType type);  // neg, abs, floor, sqrt, add, ..., mod, integer pow, the fused multiply-adds
StepFn math_step(Opcode op, DType type);   // exp, log, sin, cos, tanh, erf and pow of floats
StepFn logic_step(Opcode op, DType type);  // less, equal, bit operations, where, copy; everything on bool
StepFn cast_step(DType in, DType out);
StepFn random_step();
ReduceFns reduce_steps(Prim prim, DType type);

}  // namespace athanor::loops
