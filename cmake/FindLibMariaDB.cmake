# libmariadb, the client library of MariaDB and MySQL: LibMariaDB_FOUND, LibMariaDB_VERSION
# and the target LibMariaDB::LibMariaDB. CMake has no module for it, and it brings none;
# vcpkg's does, under a name of its own.
find_package(unofficial-libmariadb CONFIG QUIET)
if(TARGET unofficial::libmariadb)
  set(LibMariaDB_FOUND TRUE)
  set(LibMariaDB_TARGET unofficial::libmariadb)
else()
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(PC_LibMariaDB QUIET libmariadb)
    set(LibMariaDB_VERSION "${PC_LibMariaDB_VERSION}")
  endif()
  find_path(LibMariaDB_INCLUDE_DIR mysql.h
    HINTS ${PC_LibMariaDB_INCLUDE_DIRS} PATH_SUFFIXES mariadb mysql)
  find_library(LibMariaDB_LIBRARY mariadb
    HINTS ${PC_LibMariaDB_LIBRARY_DIRS} PATH_SUFFIXES mariadb)
  mark_as_advanced(LibMariaDB_INCLUDE_DIR LibMariaDB_LIBRARY)
  include(FindPackageHandleStandardArgs)
  find_package_handle_standard_args(LibMariaDB
    REQUIRED_VARS LibMariaDB_LIBRARY LibMariaDB_INCLUDE_DIR VERSION_VAR LibMariaDB_VERSION)
  set(LibMariaDB_TARGET "${LibMariaDB_LIBRARY}")
endif()
if(LibMariaDB_FOUND AND NOT TARGET LibMariaDB::LibMariaDB)
  add_library(LibMariaDB::LibMariaDB INTERFACE IMPORTED)
  target_link_libraries(LibMariaDB::LibMariaDB INTERFACE ${LibMariaDB_TARGET})
  target_include_directories(LibMariaDB::LibMariaDB INTERFACE ${LibMariaDB_INCLUDE_DIR})
endif()
