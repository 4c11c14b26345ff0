# Toolchain: clang 15 or newer. 15 is the first with std::source_location.
find_program(ATHANOR_CLANG NAMES clang++-16 clang++-19 clang++-18 clang++-17 clang++-15 clang++ REQUIRED)
set(CMAKE_CXX_COMPILER ${ATHANOR_CLANG})
