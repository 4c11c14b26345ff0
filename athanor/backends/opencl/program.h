// How OpenCL compiles kernels.
#pragma once

namespace athanor::opencl {

// -cl-std: the version that the language needs and every driver has. Division and square roots round as IEEE
// 754 requires if the device can. (Relaxed mathematics would change what NaN and infinity mean.)
// -w: no warnings, which PoCL prints into the user's terminal.
constexpr const char* compile_options = "-cl-std=CL1.2 -w";

}  // namespace athanor::opencl
