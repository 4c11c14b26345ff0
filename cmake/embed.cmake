# Embeds files into the library unchanged (athanor/base/embedded.h): data, and the kernel language's headers and templates,
# which are compiled on the user's device.
file(GLOB_RECURSE embedded CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/data/* ${PROJECT_SOURCE_DIR}/athanor/*.kernel)
set(embedded_source ${PROJECT_BINARY_DIR}/embedded.cpp)
list(TRANSFORM embedded PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE embedded_paths)
add_custom_command(OUTPUT ${embedded_source}
  COMMAND ${CMAKE_COMMAND} -D root=${PROJECT_SOURCE_DIR} -D "files=${embedded}" -D output=${embedded_source}
    -P ${PROJECT_SOURCE_DIR}/cmake/write_embedded.cmake
  DEPENDS ${embedded_paths} ${PROJECT_SOURCE_DIR}/cmake/write_embedded.cmake VERBATIM)
target_sources(athanor PRIVATE ${embedded_source})
set_source_files_properties(${embedded_source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
