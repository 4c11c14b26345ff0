# Puts the kernel language's headers and templates into the library, as text: they are compiled on the user's device.
file(GLOB_RECURSE kernel_texts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/athanor/kernels/gpu/*.kernel)
set(kernel_texts_source ${PROJECT_BINARY_DIR}/kernel_texts.cpp)
add_custom_command(OUTPUT ${kernel_texts_source}
  COMMAND ${CMAKE_COMMAND} -D root=${PROJECT_SOURCE_DIR}/athanor/kernels/gpu -D "files=${kernel_texts}"
    -D output=${kernel_texts_source} -P ${PROJECT_SOURCE_DIR}/cmake/write_kernel_texts.cmake
  DEPENDS ${kernel_texts} ${PROJECT_SOURCE_DIR}/cmake/write_kernel_texts.cmake VERBATIM)
target_sources(athanor PRIVATE ${kernel_texts_source})
