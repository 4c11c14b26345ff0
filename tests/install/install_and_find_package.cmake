# Installs the built library into a folder of its own, builds the examples against it with find_package(athanor), as a
# user would, and runs them.
#   cmake -D source=FOLDER -D build=FOLDER -P install_and_find_package.cmake
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
run(${CMAKE_COMMAND} -S ${source}/examples -B ${work}/examples -G Ninja -D CMAKE_BUILD_TYPE=Release
  -D CMAKE_PREFIX_PATH=${work}/moved)
run(${CMAKE_COMMAND} --build ${work}/examples)
run(${CMAKE_CTEST_COMMAND} --test-dir ${work}/examples --output-on-failure --no-tests=error)
