# One way to declare the project's targets: same warnings, same sanitizers.

find_package(Threads REQUIRED)
include(OutboxSchema)

# What a program that was linked with a shared library can be run with: until 1.0
# a minor version may change the ABI, afterwards only a major one.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(OUTBOX_SOVERSION 0.${PROJECT_VERSION_MINOR})
else()
  set(OUTBOX_SOVERSION ${PROJECT_VERSION_MAJOR})
endif()

# What every target of this project is compiled with, and no user of it.
add_library(outbox_build_flags INTERFACE)
target_compile_features(outbox_build_flags INTERFACE cxx_std_20)
target_compile_options(outbox_build_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety$<SEMICOLON>-Wreserved-identifier>
  # g++ 12 sees overlapping copies in `"text" + std::to_string(n)` at -O3; there are none.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<BOOL:${OUTBOX_WARNINGS_AS_ERRORS}>:-Werror>)
if(OUTBOX_SANITIZE)
  target_compile_options(outbox_build_flags INTERFACE
    -fsanitize=${OUTBOX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(outbox_build_flags INTERFACE -fsanitize=${OUTBOX_SANITIZE})
endif()
if(OUTBOX_FUZZ)
  target_link_options(outbox_build_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Besides: what is fuzzed. The tests do without what guides the fuzzer, which takes
# longer to compile.
add_library(outbox_fuzzed_flags INTERFACE)
if(OUTBOX_FUZZ)
  target_compile_options(outbox_fuzzed_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Where OUTBOX_PRECOMPILE asks for it, headers that most files include are read once for
# all targets that are compiled alike: the libraries, and what uses them.
set(outbox_standard_headers
  <algorithm> <array> <atomic> <chrono> <condition_variable> <cstdint> <exception> <functional>
  <future> <map> <memory> <mutex> <optional> <set> <span> <stdexcept> <string> <string_view>
  <thread> <unordered_map> <utility> <variant> <vector>)

# ccache looks at what a header says, not at when it was written. And g++ forgets that
# precompiled headers are the system's, in which it warns of nothing: g++ 12 has a false
# alarm there, for a text and a string put together.
set(outbox_precompile_options
  $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>
  $<$<CXX_COMPILER_ID:GNU>:SHELL:-fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow>)

# outbox_precompile_library(<target>)
# The first library reads the headers, and the others take them from it.
function(outbox_precompile_library target)
  if(NOT OUTBOX_PRECOMPILE)
    return()
  endif()
  target_compile_options(${target} PRIVATE ${outbox_precompile_options})
  get_property(first GLOBAL PROPERTY OUTBOX_PRECOMPILED_LIBRARY)
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${outbox_standard_headers})
    set_property(GLOBAL PROPERTY OUTBOX_PRECOMPILED_LIBRARY ${target})
  endif()
endfunction()

# outbox_compile_as_test(<target>)
# With OUTBOX_TEST_FLAGS, and our public headers and the test framework precompiled.
function(outbox_compile_as_test target)
  target_compile_options(${target} PRIVATE ${OUTBOX_TEST_FLAGS})
  if(NOT OUTBOX_PRECOMPILE)
    return()
  endif()
  if(NOT TARGET outbox_precompiled)
    # Has no source of its own, but a library needs one.
    set(source "${PROJECT_BINARY_DIR}/precompiled.cc")
    file(CONFIGURE OUTPUT "${source}" CONTENT "")
    add_library(outbox_precompiled OBJECT "${source}")
    set_target_properties(outbox_precompiled PROPERTIES CXX_EXTENSIONS OFF)
    target_link_libraries(outbox_precompiled PRIVATE outbox_build_flags outbox::core)
    target_compile_options(outbox_precompiled PRIVATE
      ${OUTBOX_TEST_FLAGS} ${outbox_precompile_options})
    target_precompile_headers(outbox_precompiled PRIVATE
      ${outbox_standard_headers} <outbox/outbox.h> <outbox/spi/store.h>)
    if(OUTBOX_BUILD_TESTS)
      target_link_libraries(outbox_precompiled PRIVATE GTest::gtest)
      target_precompile_headers(outbox_precompiled PRIVATE <gtest/gtest.h>)
    endif()
  endif()
  target_compile_options(${target} PRIVATE ${outbox_precompile_options})
  # ccache reads the headers themselves, also for what knows nothing of our libraries.
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_precompile_headers(${target} REUSE_FROM outbox_precompiled)
endfunction()

# outbox_library(<name> [INTERNAL] FOLDERS <dir>... [SCHEMA <dir>] [LINK <target>...]
#                [PRIVATE_LINK <target>...] [DEPENDS <arguments of find_package>...]
#                [PKGCONFIG <module>...] [DEBIAN <package>...] [DESCRIPTION <text>])
# Builds outbox_<name>, alias outbox::<name>, from the sources of the folders,
# and installs it as the component <name> of the package.
#
# LINK takes our own libraries; PRIVATE_LINK others, which public headers never
# show. Those who link our library statically need them all the same: DEPENDS,
# PKGCONFIG and DEBIAN name them for find_package, pkg-config and the dev package:
#
#   outbox_library(sqlite FOLDERS store/sqlite LINK outbox::core PRIVATE_LINK SQLite::SQLite3
#                  DEPENDS "SQLite3" PKGCONFIG "sqlite3" DEBIAN "libsqlite3-dev")
#
# INTERNAL ones are static parts of our own programs, and not installed.
#
# A shared library shows nothing but its public API. What of ours has to look
# further (the next library, the programs) links outbox_<name>_inside, a static
# archive of the same objects, which exists in shared builds only.
function(outbox_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "INTERNAL" "DESCRIPTION;SCHEMA"
    "FOLDERS;LINK;PRIVATE_LINK;DEPENDS;PKGCONFIG;DEBIAN")
  if(ARG_PRIVATE_LINK AND NOT ARG_DEPENDS AND NOT ARG_INTERNAL)
    message(FATAL_ERROR "outbox_library(${name}): say with DEPENDS how find_package finds "
      "${ARG_PRIVATE_LINK}, or those who install the library cannot link it")
  endif()
  set(sources)
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc")
    list(APPEND sources ${found})
  endforeach()
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  _outbox_inside(inside ${ARG_LINK})

  if(ARG_INTERNAL OR NOT BUILD_SHARED_LIBS)
    _outbox_compile(outbox_${name} "${sources}")
    if(ARG_INTERNAL)
      set(ARG_LINK ${inside})
    endif()
    if(NOT BUILD_SHARED_LIBS)
      target_compile_definitions(outbox_${name} PUBLIC OUTBOX_STATIC)
    endif()
    target_link_libraries(outbox_${name}
      PUBLIC ${ARG_LINK} Threads::Threads PRIVATE ${ARG_PRIVATE_LINK})
  else()
    _outbox_compile(outbox_${name}_inside "${sources}")
    target_link_libraries(outbox_${name}_inside
      PUBLIC ${inside} Threads::Threads PRIVATE ${ARG_PRIVATE_LINK})
    _outbox_shared(${name} "${ARG_LINK}" "${ARG_PRIVATE_LINK}")
  endif()
  add_library(outbox::${name} ALIAS outbox_${name})
  set_target_properties(outbox_${name} PROPERTIES EXPORT_NAME ${name})
  if(ARG_SCHEMA)
    outbox_embed_schema(outbox_${name} ${ARG_SCHEMA})
  endif()

  if(OUTBOX_INSTALL AND NOT ARG_INTERNAL)
    outbox_install_library(${name} DESCRIPTION "${ARG_DESCRIPTION}" LINK ${ARG_LINK}
      DEPENDS ${ARG_DEPENDS} PKGCONFIG ${ARG_PKGCONFIG} DEBIAN ${ARG_DEBIAN})
  endif()
endfunction()

# A static library of the sources whose objects are fit for a shared one.
function(_outbox_compile target target_sources)
  add_library(${target} STATIC ${target_sources})
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE
    $<BUILD_INTERFACE:outbox_build_flags> $<BUILD_INTERFACE:outbox_fuzzed_flags>)
  outbox_precompile_library(${target})
endfunction()

# The shared library outbox_<name>, of the objects of outbox_<name>_inside.
function(_outbox_shared name public private)
  add_library(outbox_${name} SHARED $<TARGET_OBJECTS:outbox_${name}_inside>)
  # CMake does not see the language of objects.
  set_target_properties(outbox_${name} PROPERTIES
    LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION}
    SOVERSION ${OUTBOX_SOVERSION})
  target_compile_features(outbox_${name} PUBLIC cxx_std_20)
  target_include_directories(outbox_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  # The public part of the libraries below comes from them; small helpers that
  # they hide are taken in from their archives, and hidden here as well.
  _outbox_inside(inside ${public})
  list(REMOVE_ITEM inside ${public})
  target_link_libraries(outbox_${name}
    PUBLIC ${public} Threads::Threads
    PRIVATE $<BUILD_INTERFACE:outbox_build_flags> ${private})
  foreach(archive IN LISTS inside)
    target_link_libraries(outbox_${name} PRIVATE $<BUILD_INTERFACE:$<TARGET_FILE:${archive}>>)
    add_dependencies(outbox_${name} ${archive})
    target_link_options(outbox_${name} PRIVATE
      LINKER:--exclude-libs,$<TARGET_FILE_NAME:${archive}>)
  endforeach()
  target_link_options(outbox_${name} PRIVATE
    LINKER:--version-script,${PROJECT_SOURCE_DIR}/cmake/hidden.map LINKER:--no-undefined)
  set_property(TARGET outbox_${name} APPEND PROPERTY
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/hidden.map)
endfunction()

# Sets `out` to the targets, the archives in place of our shared libraries.
function(_outbox_inside out)
  set(result)
  foreach(target IN LISTS ARGN)
    string(REPLACE "outbox::" "outbox_" archive "${target}_inside")
    if(target MATCHES "^outbox::" AND TARGET ${archive})
      list(APPEND result ${archive})
    else()
      list(APPEND result ${target})
    endif()
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# outbox_program(<name> SOURCES <file>... [LINK <target>...])
# A program of our own; contains our libraries even if they are shared.
function(outbox_program name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;LINK")
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  _outbox_inside(inside ${ARG_LINK})
  target_link_libraries(${name} PRIVATE ${inside})
  outbox_own_program(${name})
endfunction()

# outbox_own_program(<target>): compiles it like all others of this project.
function(outbox_own_program name)
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(${name} PRIVATE outbox_build_flags)
  outbox_compile_as_test(${name})
  set_property(GLOBAL APPEND PROPERTY OUTBOX_PROGRAMS ${name})
endfunction()

# What tests find in their environment. Without it libmariadb would read all certificates
# of the system for each connection with TLS, which takes longer than most tests do.
set(OUTBOX_TEST_ENVIRONMENT SSL_CERT_FILE=/dev/null)

# outbox_test(<name> FOLDERS <dir>... [SOURCES <file>...] [LINK <target>...]
#             [LABELS <label>...] [TIMEOUT <seconds>])
# Builds <name> from the *_test.cc files of the folders, and registers each of
# its tests with ctest. SOURCES are helpers that the tests share. What a folder has for one store
# or broker alone is in its folder of that name (integration/postgres), and built if that part is.
#
# Tests that take more than a few seconds live in *_long_test.cc files: those
# make a program of their own, <name>_long, whose tests also have the label
# `long`, which `scripts/test --quick` and the sanitizer runs leave out. Tests whose
# name begins with Postgres, Mysql or Redis also have the label `postgres`, `mysql` or `redis`.
function(outbox_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "FOLDERS;SOURCES;LINK;LABELS")
  outbox_glob(sources "*_test.cc" ${ARG_FOLDERS})
  set(long_sources ${sources})
  list(FILTER sources EXCLUDE REGEX "_long_test\\.cc$")
  list(FILTER long_sources INCLUDE REGEX "_long_test\\.cc$")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(sources)
    _outbox_test_program(${name} "${sources}" "${ARG_LABELS}" ${ARG_TIMEOUT})
  endif()
  if(long_sources)
    math(EXPR long_timeout "${ARG_TIMEOUT} * 5")
    _outbox_test_program(${name}_long "${long_sources}" "${ARG_LABELS};long" ${long_timeout})
  endif()
endfunction()

# outbox_glob(<out> <pattern> <dir>...): the files of the folders, and of their folders for the
# parts that are built.
function(outbox_glob out pattern)
  set(result)
  foreach(folder IN LISTS ARGN)
    foreach(part IN ITEMS "" ${OUTBOX_PARTS})
      file(GLOB found CONFIGURE_DEPENDS "${folder}/${part}/${pattern}")
      list(APPEND result ${found})
    endforeach()
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# Uses the arguments of outbox_test besides its own.
function(_outbox_test_program program program_sources labels timeout)
  outbox_program(${program} SOURCES ${program_sources} ${ARG_SOURCES}
                 LINK ${ARG_LINK} GTest::gtest_main)
  # For #include "..." alone: a folder may have a mysql.h of its own.
  foreach(folder IN LISTS ARG_FOLDERS)
    target_compile_options(${program} PRIVATE "SHELL:-iquote ${folder}")
  endforeach()
  gtest_discover_tests(${program} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT ${timeout} ENVIRONMENT ${OUTBOX_TEST_ENVIRONMENT})
  # Not by PROPERTIES: that keeps only the first label of a list.
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${program}_labels.cmake")
  file(CONFIGURE OUTPUT "${labels_file}" @ONLY CONTENT [[
if(NOT DEFINED @program@_TESTS)
  set(@program@_TESTS @program@_NOT_BUILT)  # what gtest_discover_tests registers then
endif()
foreach(test IN LISTS @program@_TESTS)
  set(labels "@labels@")
  if(test MATCHES "^(Postgres|Mysql|Redis)")
    string(TOLOWER "${CMAKE_MATCH_1}" server)
    list(APPEND labels ${server})
  endif()
  set_tests_properties("${test}" PROPERTIES LABELS "${labels}")
endforeach()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
endfunction()

# outbox_part(<name> <package> [AND <package>] [CONFIG] [DEFAULT <ON|OFF|AUTO>])
# Declares OUTBOX_BUILD_<NAME> and looks for the packages; OUTBOX_HAS_<NAME> says whether the part
# is built, and OUTBOX_PARTS lists those that are.
macro(outbox_part name package)
  cmake_parse_arguments(PART "CONFIG" "AND;DEFAULT" "" ${ARGN})
  set(PART_PACKAGES ${package} ${PART_AND})
  list(JOIN PART_PACKAGES " and " PART_NEEDS)
  string(TOUPPER ${name} PART_UPPER)
  if(NOT DEFINED PART_DEFAULT)  # OFF is one, too
    set(PART_DEFAULT AUTO)
  endif()
  set(OUTBOX_BUILD_${PART_UPPER} ${PART_DEFAULT} CACHE STRING
    "Build the part ${name}, which needs ${PART_NEEDS}: ON, OFF or AUTO")
  set(OUTBOX_HAS_${PART_UPPER} OFF)
  if(OUTBOX_BUILD_${PART_UPPER} STREQUAL "OFF")
    list(APPEND OUTBOX_LEFT_OUT "${name} (OUTBOX_BUILD_${PART_UPPER} is OFF)")
  else()
    set(PART_MODE)
    if(PART_CONFIG)
      set(PART_MODE CONFIG)
    endif()
    set(PART_HOW REQUIRED)
    if(OUTBOX_BUILD_${PART_UPPER} STREQUAL "AUTO")
      set(PART_HOW QUIET)
    endif()
    set(PART_MISSING)
    foreach(PART_PACKAGE IN LISTS PART_PACKAGES)
      find_package(${PART_PACKAGE} ${PART_MODE} ${PART_HOW})
      if(NOT ${PART_PACKAGE}_FOUND)
        list(APPEND PART_MISSING ${PART_PACKAGE})
      endif()
    endforeach()
    if(PART_MISSING)
      list(JOIN PART_MISSING " and " PART_MISSING)
      list(APPEND OUTBOX_LEFT_OUT "${name} (${PART_MISSING} was not found)")
    else()
      set(OUTBOX_HAS_${PART_UPPER} ON)
      list(APPEND OUTBOX_PARTS ${name})
    endif()
  endif()
endmacro()

macro(outbox_leave_out_part name why)
  string(TOUPPER ${name} PART_UPPER)
  set(OUTBOX_HAS_${PART_UPPER} OFF)
  list(REMOVE_ITEM OUTBOX_PARTS ${name})
  list(APPEND OUTBOX_LEFT_OUT "${name} (${why})")
endmacro()

macro(outbox_report_parts)
  list(JOIN OUTBOX_PARTS ", " PART_LIST)
  message(STATUS "outbox: building core, ${PART_LIST}")
  if(OUTBOX_LEFT_OUT)
    list(JOIN OUTBOX_LEFT_OUT ", " PART_LIST)
    message(STATUS "outbox: leaving out ${PART_LIST}")
  endif()
endmacro()

# What tests link besides a store, to talk to its server themselves.
set(OUTBOX_CLIENT_SQLITE SQLite::SQLite3)
set(OUTBOX_CLIENT_POSTGRES PostgreSQL::PostgreSQL)
set(OUTBOX_CLIENT_MYSQL LibMariaDB::LibMariaDB)
