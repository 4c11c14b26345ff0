# cmake --install build/release --prefix FOLDER: the library, its headers, and a package that find_package(athanor) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(athanor PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
# The program finds the library by a relative path, so both can be moved together.
if(TARGET athanor_cli)
  file(RELATIVE_PATH to_library /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  # Where it is built, they lie side by side. The path is never changed: CMake would make room for the longer one by an empty
  # entry, and the program would then load libraries from the folder where it is started.
  set_target_properties(athanor_cli PROPERTIES INSTALL_RPATH "$ORIGIN:$ORIGIN/${to_library}" BUILD_WITH_INSTALL_RPATH ON)
endif()

install(TARGETS athanor EXPORT athanor_targets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY athanor DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h"
  PATTERN "*-inl.h" EXCLUDE
  # Not for users of the library: headers of the program and internal headers of backends.
  PATTERN "cli" EXCLUDE
  PATTERN "backends" EXCLUDE)
install(EXPORT athanor_targets NAMESPACE athanor:: FILE athanor-targets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/athanor)
configure_package_config_file(cmake/athanor-config.cmake.in ${PROJECT_BINARY_DIR}/athanor-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/athanor NO_SET_AND_CHECK_MACRO)
# Before 1.0 every minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/athanor-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/athanor-config.cmake ${PROJECT_BINARY_DIR}/athanor-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/athanor)

file(RELATIVE_PATH athanor_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" athanor_from_pc ${athanor_from_pc})
configure_file(cmake/athanor.pc.in ${PROJECT_BINARY_DIR}/athanor.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/athanor.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(CODE "execute_process(COMMAND ${CMAKE_COMMAND} -D source=${PROJECT_SOURCE_DIR}
    -D docs=\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}
    -D include=\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}
    -P ${PROJECT_SOURCE_DIR}/cmake/install_docs.cmake COMMAND_ERROR_IS_FATAL ANY)")

# The program itself prints its shell completions and its manual page.
if(TARGET athanor_cli AND NOT CMAKE_CROSSCOMPILING)
  foreach(made
      bash:share/bash-completion/completions/athanor
      zsh:share/zsh/site-functions/_athanor
      fish:share/fish/vendor_completions.d/athanor.fish
      man:share/man/man1/athanor.1)
    string(REPLACE ":" ";" made ${made})
    list(GET made 0 kind)
    list(GET made 1 file)
    cmake_path(GET file PARENT_PATH folder)
    cmake_path(GET file FILENAME name)
    install(CODE "
      file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/completion/${kind})
      execute_process(COMMAND $<TARGET_FILE:athanor_cli> completion ${kind}
        OUTPUT_FILE ${PROJECT_BINARY_DIR}/completion/${kind}/${name} COMMAND_ERROR_IS_FATAL ANY)
      file(INSTALL ${PROJECT_BINARY_DIR}/completion/${kind}/${name} DESTINATION \${CMAKE_INSTALL_PREFIX}/${folder})")
  endforeach()
endif()
