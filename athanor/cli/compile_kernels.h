// Compiling kernels in further processes of this program (kernels/compile_apart.h).
#pragma once

namespace CLI {
class App;
}

namespace athanor::cli {

/// From now on compilers that cannot work in several threads work in processes of this program.
void compile_kernels_apart();
/// The hidden command `compile-kernels COMPILER TARGET`, which those processes run.
void add_compile_kernels(CLI::App& program);

}  // namespace athanor::cli
