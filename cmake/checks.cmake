# Tests that do not belong to one source folder: the format of sources, the fuzzers, the sanitizers, the installed package.
# A check is reported as skipped if its build does not exist (./test makes all of them).
function(add_check name)
  cmake_parse_arguments(PARSE_ARGV 1 check "" "TIMEOUT" "COMMAND")
  add_test(NAME ${name} COMMAND ${check_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${check_TIMEOUT} SKIP_RETURN_CODE 77 LABELS check)
endfunction()

add_check(check_format TIMEOUT 120 COMMAND tools/check-format)
add_check(check_format_keeps TIMEOUT 60 COMMAND tests/support/check-format-keeps)
add_check(check_layers TIMEOUT 60 COMMAND tools/check-layers)
add_check(check_drivers TIMEOUT 60 COMMAND tools/check-drivers)
add_check(check_layers_finds TIMEOUT 60 COMMAND tests/support/check-layers-finds)
add_check(check_links TIMEOUT 60 COMMAND tools/check-links)
add_check(check_links_finds TIMEOUT 60 COMMAND tests/support/check-links-finds)
add_check(check_translations TIMEOUT 60 COMMAND tools/check-translations)
add_check(check_translations_finds TIMEOUT 60 COMMAND tests/support/check-translations-finds)
# About what a few days change. All sources take three times as long.
add_check(check_tidy TIMEOUT 1800 COMMAND tools/check-tidy --since HEAD~40)
set_tests_properties(check_tidy PROPERTIES PROCESSORS 2 COST 1000)
if(ATHANOR_OPENCL)
  add_check(check_gpu_kernels TIMEOUT 1200 COMMAND tools/check-gpu-kernels --in-turns)
  # Sizes in which people train have longer epilogues and larger tiles, and joined launches with more loops.
  add_check(check_gpu_kernels_of_sizes TIMEOUT 600
            COMMAND tools/check-gpu-kernels --models bert-base:f16:16 resnet50:bf16:64 --no-candidates --chips gfx1201)
  set_tests_properties(check_gpu_kernels check_gpu_kernels_of_sizes PROPERTIES PROCESSORS 2)
endif()
add_check(gpu_cost TIMEOUT 60 COMMAND tests/gpu_cost/gpu_cost_test.py)
add_check(gpu_compilers TIMEOUT 60 COMMAND tests/gpu_cost/compilers_test.py)
if(ATHANOR_OPENCL)
  add_check(gpu_cost_of_products TIMEOUT 300 COMMAND tools/check-gpu-kernels --cost --goals
            --chips gfx906 gfx1030 gfx1100 gfx1201 gfx942 sm_80 sm_89 sm_90)
  # Ptxas may overwrite what wgmma still reads (tools/gpu_cost/wgmma.py).
  add_check(gpu_cost_of_attention TIMEOUT 300 COMMAND tools/check-gpu-kernels --cost --attention --chips sm_90a)
  add_check(matrix_units_of_plans TIMEOUT 300 COMMAND tests/gpu_cost/matrix_units_test.py)
endif()
foreach(vendor nvidia amd)
  add_check(virtual_gpu_${vendor} TIMEOUT 900 COMMAND tools/virtual-gpus --short ${vendor})
endforeach()
foreach(chip gfx1100 gfx90a sm_86 intel16)
  add_check(check_opencl_units_${chip} TIMEOUT 300 COMMAND tools/check-opencl-units --short ${chip})
  set_tests_properties(check_opencl_units_${chip} PROPERTIES DEPENDS "virtual_gpu_nvidia;virtual_gpu_amd")  # they build them
endforeach()
foreach(reader idx npy npz safetensors image cifar tar csv machine doctor)
  add_check(fuzz_${reader} TIMEOUT 120 COMMAND tools/run-fuzzer ${reader})
endforeach()
add_check(virtual_gpus_table TIMEOUT 60 COMMAND tests/support/check-virtual-gpus-table)
add_check(performance_page TIMEOUT 60 COMMAND tests/support/check-performance-page)
add_check(run_rusticl TIMEOUT 120 COMMAND tools/run-rusticl 100 add)
if(ATHANOR_OPENCL)
  add_check(gpu_report TIMEOUT 300 COMMAND tests/support/check-gpu-report)
  set_tests_properties(gpu_report PROPERTIES PROCESSORS 2)
endif()
add_check(unpack_machine TIMEOUT 60 COMMAND tests/support/check-unpack-machine)
add_check(sanitizers TIMEOUT 600 COMMAND tools/run-sanitized)
set_tests_properties(sanitizers PROPERTIES PROCESSORS 2)
add_check(install_and_find_package TIMEOUT 600 COMMAND ${CMAKE_COMMAND}
  -D source=${PROJECT_SOURCE_DIR} -D build=${PROJECT_BINARY_DIR} -D compiler=${CMAKE_CXX_COMPILER} -P tests/install/install_and_find_package.cmake)

# All programs of tests/, and nothing else. The presets asan and tsan build this.
get_property(programs DIRECTORY ${PROJECT_SOURCE_DIR}/tests PROPERTY BUILDSYSTEM_TARGETS)
list(FILTER programs INCLUDE REGEX "^test_")
add_custom_target(sanitized_tests DEPENDS ${programs})
