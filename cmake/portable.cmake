# -DATHANOR_PORTABLE=ON (the preset portable): one program that needs only the system's C library. Third-party libraries are
# linked from static archives; libraries without an archive in Debian are left out (oneDNN, hwloc) or have a substitute
# (fmt's header-only form; Highway's choice of instruction set, portable_highway.cpp). GPU drivers are loaded at run time as
# always. docs/install.md lists the differences.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(CMAKE_EXE_LINKER_FLAGS "${CMAKE_EXE_LINKER_FLAGS} -static-libstdc++ -static-libgcc")
foreach(option ATHANOR_ONEDNN ATHANOR_HWLOC ATHANOR_TESTS ATHANOR_EXAMPLES ATHANOR_BENCH)
  if(${option})
    message(FATAL_ERROR "${option} cannot be part of a portable program: use cmake --preset portable")
  endif()
endforeach()

# Links OpenMP's static archive; find_package(OpenMP) would name the shared one.
function(link_static_openmp target)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libgomp.a OUTPUT_VARIABLE archive
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT EXISTS "${archive}")
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} has no libgomp.a. Build with g++, or with -DATHANOR_OPENMP=OFF on one thread")
  endif()
  target_compile_options(${target} PRIVATE -fopenmp)
  target_link_libraries(${target} PRIVATE ${archive})
endfunction()
