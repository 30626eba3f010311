# hiredis, the client library of Redis: LibHiredis_FOUND, LibHiredis_VERSION and the target
# LibHiredis::LibHiredis. From version 1 on it brings a package for CMake; Debian's 0.14
# has one that defines no target.
find_package(hiredis CONFIG QUIET)
if(TARGET hiredis::hiredis)
  set(LibHiredis_FOUND TRUE)
  set(LibHiredis_VERSION "${hiredis_VERSION}")
  if(NOT TARGET LibHiredis::LibHiredis)
    add_library(LibHiredis::LibHiredis INTERFACE IMPORTED)
    target_link_libraries(LibHiredis::LibHiredis INTERFACE hiredis::hiredis)
  endif()
  return()
endif()

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_LibHiredis QUIET hiredis)
endif()
find_path(LibHiredis_INCLUDE_DIR hiredis/hiredis.h)
find_library(LibHiredis_LIBRARY hiredis HINTS ${PC_LibHiredis_LIBRARY_DIRS})
mark_as_advanced(LibHiredis_INCLUDE_DIR LibHiredis_LIBRARY)
set(LibHiredis_VERSION "${PC_LibHiredis_VERSION}")

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibHiredis
  REQUIRED_VARS LibHiredis_LIBRARY LibHiredis_INCLUDE_DIR VERSION_VAR LibHiredis_VERSION)
if(LibHiredis_FOUND AND NOT TARGET LibHiredis::LibHiredis)
  add_library(LibHiredis::LibHiredis UNKNOWN IMPORTED)
  set_target_properties(LibHiredis::LibHiredis PROPERTIES
    IMPORTED_LOCATION "${LibHiredis_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${LibHiredis_INCLUDE_DIR}")
endif()
