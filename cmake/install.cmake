# cmake --install build/release --prefix FOLDER: the library, its headers, and a package that find_package(athanor) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(athanor PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
# The program finds the library by a relative path, so both can be moved together.
if(TARGET athanor_cli)
  file(RELATIVE_PATH to_library /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(athanor_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${to_library}")
endif()

install(TARGETS athanor EXPORT athanor_targets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY athanor DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h"
  PATTERN "*-inl.h" EXCLUDE
  # Not for users of the library: headers of the program and internal headers of backends.
  PATTERN "cli" EXCLUDE
  PATTERN "backends" EXCLUDE)
install(FILES athanor/backends/cpu/threads.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/athanor/backends/cpu)
install(EXPORT athanor_targets NAMESPACE athanor:: FILE athanor-targets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/athanor)
configure_package_config_file(cmake/athanor-config.cmake.in ${PROJECT_BINARY_DIR}/athanor-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/athanor NO_SET_AND_CHECK_MACRO)
# Before 1.0 every minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/athanor-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/athanor-config.cmake ${PROJECT_BINARY_DIR}/athanor-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/athanor)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
