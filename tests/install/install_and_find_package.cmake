# Installs the built library into a folder of its own, builds the examples against it with find_package(athanor), as a
# user would, and runs them.
#   cmake -D source=FOLDER -D build=FOLDER -D compiler=PROGRAM -P install_and_find_package.cmake
set(work ${build}/install-test)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed)
  if(failed)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "failed (${failed}): ${command}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${build} --prefix ${work}/prefix)
# Moved, so that nothing can lean on where it was installed first.
file(RENAME ${work}/prefix ${work}/moved)
run(${work}/moved/bin/athanor --version)
# An empty entry means the folder where the program is started.
foreach(program ${build}/athanor ${work}/moved/bin/athanor)
  execute_process(COMMAND objdump -p ${program} OUTPUT_VARIABLE facts COMMAND_ERROR_IS_FATAL ANY)
  if(NOT facts MATCHES "RUNPATH +([^\n]+)" OR CMAKE_MATCH_1 MATCHES "^:|::|:$")
    message(FATAL_ERROR "${program} looks for libraries in '${CMAKE_MATCH_1}'")
  endif()
endforeach()
run(${source}/tools/check-links ${work}/moved/share/doc)
run(${source}/tools/check-translations ${work}/moved/share/doc)
foreach(file bash-completion/completions/athanor zsh/site-functions/_athanor fish/vendor_completions.d/athanor.fish
    man/man1/athanor.1)
  file(STRINGS ${work}/moved/share/${file} mentions REGEX "kernels")
  if(NOT mentions)
    message(FATAL_ERROR "share/${file} is missing or empty")
  endif()
endforeach()

# With pkg-config's flags alone, and the one header that has everything.
file(GLOB_RECURSE pc ${work}/moved/*/athanor.pc)
cmake_path(GET pc PARENT_PATH pc)
cmake_path(GET pc PARENT_PATH libraries)
find_program(PKG_CONFIG pkg-config REQUIRED)
execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pc} ${PKG_CONFIG} --cflags --libs athanor
  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
run(${compiler} -std=c++20 ${source}/tests/install/umbrella.cpp -o ${work}/umbrella ${flags} -Wl,-rpath,${libraries})
run(${work}/umbrella)
run(${CMAKE_COMMAND} -S ${source}/examples -B ${work}/examples -G Ninja -D CMAKE_BUILD_TYPE=Release
  -D CMAKE_PREFIX_PATH=${work}/moved)
run(${CMAKE_COMMAND} --build ${work}/examples)
run(${CMAKE_CTEST_COMMAND} --test-dir ${work}/examples --output-on-failure --no-tests=error)
