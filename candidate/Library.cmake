# SPDX-License-Identifier: PostgreSQL
# libpgleader: what is installed of the candidate for programs in C. Everything of ours is inside, and only the names
# of pgleader.map are to be seen, also in the static library.

set(soversion 0)

add_library(pgleader SHARED pgleader.map)
set_target_properties(pgleader PROPERTIES LINKER_LANGUAGE C VERSION ${PROJECT_VERSION} SOVERSION ${soversion}
  LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/pgleader.map PUBLIC_HEADER ${CMAKE_CURRENT_SOURCE_DIR}/pgleader.h
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
target_link_options(pgleader PRIVATE LINKER:--version-script=${CMAKE_CURRENT_SOURCE_DIR}/pgleader.map
  LINKER:-z,nodelete) # threads of its own may outlive a dlclose
if(NOT PGLEADER_SANITIZE)
  target_link_options(pgleader PRIVATE LINKER:-z,defs)
endif()
target_link_libraries(pgleader PRIVATE
  -Wl,--whole-archive pgleader::candidate -Wl,--no-whole-archive PkgConfig::LIBPQ Threads::Threads)
target_include_directories(pgleader INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# One object whose other names are made local: an archive of many would have to show them to each other.
set(static ${CMAKE_BINARY_DIR}/lib/libpgleader.a)
set(object ${CMAKE_CURRENT_BINARY_DIR}/pgleader.o)
add_custom_command(OUTPUT ${static}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/lib
  COMMAND ${CMAKE_LINKER} -r -o ${object} --whole-archive $<TARGET_FILE:pgleader::candidate> --no-whole-archive
    $<TARGET_FILE:pgleader::pg> $<TARGET_FILE:pgleader::base>
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${object}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${static}
  COMMAND ${CMAKE_AR} crs ${static} ${object}
  DEPENDS pgleader::candidate pgleader::pg pgleader::base VERBATIM)
add_custom_target(pgleader_static ALL DEPENDS ${static})

include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/pgleader)
configure_file(pgleader.pc.in ${CMAKE_CURRENT_BINARY_DIR}/pgleader.pc @ONLY)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/pgleaderConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/pgleaderConfig.cmake INSTALL_DESTINATION ${package}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/pgleaderConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS pgleader EXPORT pgleaderTargets COMPONENT libpgleader
  LIBRARY COMPONENT libpgleader NAMELINK_COMPONENT libpgleader PUBLIC_HEADER COMPONENT libpgleader)
install(EXPORT pgleaderTargets NAMESPACE pgleader:: DESTINATION ${package} COMPONENT libpgleader)
install(FILES ${static} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libpgleader)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/pgleader.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT libpgleader)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/pgleaderConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/pgleaderConfigVersion.cmake
  DESTINATION ${package} COMPONENT libpgleader)
