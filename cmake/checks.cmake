# Tests that do not belong to one source folder: the format of sources, the fuzzers, the sanitizers, the installed package.
# A check is reported as skipped if its build does not exist (./test makes all of them).
function(add_check name)
  cmake_parse_arguments(PARSE_ARGV 1 check "" "TIMEOUT" "COMMAND")
  add_test(NAME ${name} COMMAND ${check_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${check_TIMEOUT} SKIP_RETURN_CODE 77 LABELS check)
endfunction()

add_check(check_format TIMEOUT 120 COMMAND tools/check-format)
add_check(check_layers TIMEOUT 60 COMMAND tools/check-layers)
add_check(check_layers_finds TIMEOUT 60 COMMAND tests/support/check-layers-finds)
add_check(check_tidy TIMEOUT 1800 COMMAND tools/check-tidy)
set_tests_properties(check_tidy PROPERTIES PROCESSORS 2 COST 1000)
if(ATHANOR_OPENCL)
  add_check(check_gpu_kernels TIMEOUT 600 COMMAND tools/check-gpu-kernels)
  set_tests_properties(check_gpu_kernels PROPERTIES PROCESSORS 2)
endif()
add_check(gpu_cost TIMEOUT 60 COMMAND tests/gpu_cost/gpu_cost_test.py)
foreach(vendor nvidia amd)
  add_check(virtual_gpu_${vendor} TIMEOUT 900 COMMAND tools/virtual-gpus --short ${vendor})
endforeach()
foreach(reader idx npy safetensors image machine doctor)
  add_check(fuzz_${reader} TIMEOUT 120 COMMAND tools/run-fuzzer ${reader} 10)
endforeach()
add_check(unpack_machine TIMEOUT 60 COMMAND tests/support/check-unpack-machine)
add_check(sanitizers TIMEOUT 600 COMMAND tools/run-sanitized)
set_tests_properties(sanitizers PROPERTIES PROCESSORS 2)
add_check(install_and_find_package TIMEOUT 600 COMMAND ${CMAKE_COMMAND}
  -D source=${PROJECT_SOURCE_DIR} -D build=${PROJECT_BINARY_DIR} -D compiler=${CMAKE_CXX_COMPILER} -P tests/install/install_and_find_package.cmake)

# All programs of tests/, and nothing else. The presets asan and tsan build this.
get_property(programs DIRECTORY ${PROJECT_SOURCE_DIR}/tests PROPERTY BUILDSYSTEM_TARGETS)
list(FILTER programs INCLUDE REGEX "^test_")
add_custom_target(sanitized_tests DEPENDS ${programs})
