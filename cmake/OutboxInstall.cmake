# The install tree: headers, libraries, the CMake package, pkg-config files.
#
#   include/outbox/*.h
#   lib/liboutbox_<component>.{a,so}
#   lib/pkgconfig/outbox-<component>.pc
#   lib/cmake/outbox/outboxConfig.cmake            finds the components below
#   lib/cmake/outbox/component-<component>.cmake   what it needs
#   lib/cmake/outbox/targets-<component>*.cmake    the target outbox::<component>
#   lib/cmake/outbox/Find<package>.cmake           for what a static one links
#   bin/outbox
#
# It is cut into the install components outbox_runtime (shared libraries),
# outbox_development and outbox_cli, each of which becomes a package.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

if(OUTBOX_INSTALL AND IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  message(FATAL_ERROR "outbox: CMAKE_INSTALL_LIBDIR is ${CMAKE_INSTALL_LIBDIR}; "
    "it has to be relative to the prefix, so that the installed tree can be moved")
endif()
set(OUTBOX_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/outbox")

# Until 1.0 a minor version may change the API and the ABI, afterwards only a major one: that is
# what a program can be run with that was linked with a shared library, and what find_package takes.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(OUTBOX_SOVERSION 0.${PROJECT_VERSION_MINOR})
  set(OUTBOX_COMPATIBILITY SameMinorVersion)
else()
  set(OUTBOX_SOVERSION ${PROJECT_VERSION_MAJOR})
  set(OUTBOX_COMPATIBILITY SameMajorVersion)
endif()

# outbox_install_library(<name> [DESCRIPTION <text>] [LINK <target>...] [DEPENDS ...]
#                        [PKGCONFIG ...] [DEBIAN ...])
# Called by outbox_library, which says what the arguments mean.
function(outbox_install_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "DESCRIPTION" "LINK;DEPENDS;PKGCONFIG;DEBIAN")
  set(below ${ARG_LINK})
  list(FILTER below INCLUDE REGEX "^outbox::")
  list(TRANSFORM below REPLACE "^outbox::" "")
  set(folder "${PROJECT_BINARY_DIR}/install")

  target_include_directories(outbox_${name} INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(outbox_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS outbox_${name} EXPORT outbox_${name}
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT outbox_development
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT outbox_runtime
            NAMELINK_COMPONENT outbox_development)
  install(EXPORT outbox_${name} FILE targets-${name}.cmake NAMESPACE outbox::
    DESTINATION "${OUTBOX_CMAKE_DIR}" COMPONENT outbox_development)

  # Shared libraries bring what they need along. A program that links a static one needs it too, and the
  # modules of cmake/ for what CMake has none for.
  set(dependencies "Threads")
  set(modules)
  if(NOT BUILD_SHARED_LIBS)
    list(APPEND dependencies ${ARG_DEPENDS})
    list(TRANSFORM ARG_DEPENDS REPLACE "^([^ ]+).*" "${PROJECT_SOURCE_DIR}/cmake/Find\\1.cmake")
    file(GLOB modules ${ARG_DEPENDS})
  endif()
  file(CONFIGURE OUTPUT "${folder}/component-${name}.cmake" @ONLY CONTENT [[
# Other components that outbox::@name@ stands on, and what find_package has to find.
set(_outbox_below "@below@")
set(_outbox_dependencies "@dependencies@")
]])
  install(FILES "${folder}/component-${name}.cmake" ${modules}
    DESTINATION "${OUTBOX_CMAKE_DIR}" COMPONENT outbox_development)

  _outbox_pkgconfig(${name} "${ARG_DESCRIPTION}" "${below}" "${ARG_PKGCONFIG}")
  install(FILES "${folder}/outbox-${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
    COMPONENT outbox_development)
  set_property(GLOBAL APPEND PROPERTY OUTBOX_DEBIAN_PACKAGES ${ARG_DEBIAN})
  set_property(GLOBAL APPEND PROPERTY OUTBOX_LIBRARIES ${name})
endfunction()

function(_outbox_pkgconfig name description visible private)
  # From the folder of the file, so that the tree can be moved.
  string(REGEX REPLACE "[^/]+" ".." prefix "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  list(TRANSFORM visible REPLACE ".+" "outbox-\\0 = ${PROJECT_VERSION}")
  set(libs_private "-pthread")
  set(libs "")
  set(cflags "")
  # A static library is linked with what it needs, with --static or without.
  if(NOT BUILD_SHARED_LIBS)
    list(APPEND visible ${private})
    set(private)
    set(libs " -pthread")
    set(libs_private "")
    set(cflags " -DOUTBOX_STATIC")
  endif()
  list(JOIN visible ", " requires)
  list(JOIN private ", " requires_private)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/install/outbox-${name}.pc" @ONLY CONTENT [[
prefix=${pcfiledir}/@prefix@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: outbox-@name@
Description: @description@
Version: @PROJECT_VERSION@
Requires: @requires@
Requires.private: @requires_private@
Cflags: -I${includedir}@cflags@
Libs: -L${libdir} -loutbox_@name@@libs@
Libs.private: @libs_private@
]])
endfunction()

# outbox_install_program(<target>), with its man pages and its completion.
function(outbox_install_program target)
  if(OUTBOX_INSTALL)
    install(TARGETS ${target} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT outbox_cli)
    file(GLOB pages CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/packaging/man/*.1")
    install(FILES ${pages} DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT outbox_cli)
    install(FILES "${PROJECT_SOURCE_DIR}/packaging/completion/${target}" COMPONENT outbox_cli
      DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
  endif()
endfunction()

# outbox_install_package(): what all components share.
function(outbox_install_package)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/outbox"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT outbox_development
    FILES_MATCHING PATTERN "*.h")
  set(config "${PROJECT_BINARY_DIR}/install/outboxConfig")
  write_basic_package_version_file("${config}Version.cmake" COMPATIBILITY ${OUTBOX_COMPATIBILITY})
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/outboxConfig.cmake.in"
    "${config}.cmake" INSTALL_DESTINATION "${OUTBOX_CMAKE_DIR}"
    NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  install(FILES "${config}.cmake" "${config}Version.cmake"
    DESTINATION "${OUTBOX_CMAKE_DIR}" COMPONENT outbox_development)
endfunction()
