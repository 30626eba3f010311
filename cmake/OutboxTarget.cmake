# One way to declare the project's targets: same warnings, same sanitizers.

find_package(Threads REQUIRED)

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

# Besides: what is fuzzed. The tests do without what guides the fuzzer, which takes
# longer to compile.
add_library(outbox_fuzzed_flags INTERFACE)
if(OUTBOX_FUZZ)
  target_compile_options(outbox_fuzzed_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(outbox_build_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Where OUTBOX_PRECOMPILE asks for it, headers that most files include are read once for
# all targets that are compiled alike: the libraries, and what uses them.
set(outbox_standard_headers
  <algorithm> <array> <atomic> <chrono> <condition_variable> <cstdint> <exception> <functional>
  <future> <map> <memory> <mutex> <optional> <set> <span> <stdexcept> <string> <string_view>
  <thread> <unordered_map> <utility> <variant> <vector>)

# _outbox_precompile(<target> <first>): takes the headers from `first`, or reads them if it is that.
function(_outbox_precompile target first)
  if(NOT OUTBOX_PRECOMPILE)
    return()
  endif()
  # ccache looks at what a header says, not at when it was written. And g++ forgets that
  # precompiled headers are the system's, in which it warns of nothing: g++ 12 has a false
  # alarm there, for a text and a string put together.
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>
    $<$<CXX_COMPILER_ID:GNU>:SHELL:-fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow>)
  if(target STREQUAL first)
    target_precompile_headers(${target} PRIVATE ${outbox_standard_headers} ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()

# For programs: our public headers and the test framework besides. A target without a source of
# its own, but it needs one.
if(OUTBOX_PRECOMPILE)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cc" CONTENT "")
  add_library(outbox_precompiled OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/precompiled.cc")
  set_target_properties(outbox_precompiled PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(outbox_precompiled PRIVATE outbox_build_flags outbox::core)
  target_compile_options(outbox_precompiled PRIVATE ${OUTBOX_TEST_FLAGS})
  _outbox_precompile(outbox_precompiled outbox_precompiled <outbox/outbox.h> <outbox/spi/store.h>)
  if(OUTBOX_BUILD_TESTS)
    target_link_libraries(outbox_precompiled PRIVATE GTest::gtest)
    target_precompile_headers(outbox_precompiled PRIVATE <gtest/gtest.h>)
  endif()
endif()

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
# SCHEMA has the migrations that are compiled in. INTERNAL ones are static parts of our own
# programs, and not installed.
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
  list(TRANSFORM ARG_FOLDERS REPLACE ".+" "${CMAKE_CURRENT_SOURCE_DIR}/\\0/*.cc")
  file(GLOB sources CONFIGURE_DEPENDS ${ARG_FOLDERS})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  _outbox_inside(inside ${ARG_LINK})
  set(compiled outbox_${name})
  if(BUILD_SHARED_LIBS AND NOT ARG_INTERNAL)
    set(compiled outbox_${name}_inside)
  endif()

  # Its objects are fit for a shared library. In a static build `inside` is LINK as it is.
  add_library(${compiled} STATIC ${sources})
  set_target_properties(${compiled} PROPERTIES CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${compiled} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${compiled} PUBLIC ${inside} PRIVATE ${ARG_PRIVATE_LINK}
    $<BUILD_INTERFACE:outbox_build_flags> $<BUILD_INTERFACE:outbox_fuzzed_flags>)
  if(NOT BUILD_SHARED_LIBS)
    target_compile_definitions(${compiled} PUBLIC OUTBOX_STATIC)
  endif()
  _outbox_common(${compiled})
  if(ARG_SCHEMA)
    outbox_embed_schema(${compiled} ${ARG_SCHEMA})
  endif()
  # The core is declared first.
  set(first outbox_core)
  if(BUILD_SHARED_LIBS)
    set(first outbox_core_inside)
  endif()
  _outbox_precompile(${compiled} ${first})

  if(NOT TARGET outbox_${name})
    _outbox_shared(${name} "${ARG_LINK}" "${ARG_PRIVATE_LINK}")
    _outbox_common(outbox_${name})
  endif()
  add_library(outbox::${name} ALIAS outbox_${name})
  if(OUTBOX_INSTALL AND NOT ARG_INTERNAL)
    outbox_install_library(${name} DESCRIPTION "${ARG_DESCRIPTION}" LINK ${ARG_LINK}
      DEPENDS ${ARG_DEPENDS} PKGCONFIG ${ARG_PKGCONFIG} DEBIAN ${ARG_DEBIAN})
  endif()
endfunction()

# What everybody who links a library of ours gets.
function(_outbox_common target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(${target} PUBLIC Threads::Threads)
endfunction()

# The shared library outbox_<name>, of the objects of outbox_<name>_inside.
function(_outbox_shared name public private)
  set(map "${PROJECT_SOURCE_DIR}/cmake/hidden.map")
  add_library(outbox_${name} SHARED $<TARGET_OBJECTS:outbox_${name}_inside>)
  # CMake does not see the language of objects.
  set_target_properties(outbox_${name} PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS "${map}"
    VERSION ${PROJECT_VERSION} SOVERSION ${OUTBOX_SOVERSION})
  target_link_libraries(outbox_${name} PUBLIC ${public}
    PRIVATE $<BUILD_INTERFACE:outbox_build_flags> ${private})
  target_link_options(outbox_${name} PRIVATE LINKER:--version-script,${map} LINKER:--no-undefined)
  # The public part of the libraries below comes from them; small helpers that
  # they hide are taken in from their archives, and hidden here as well.
  _outbox_inside(inside ${public})
  list(REMOVE_ITEM inside ${public})
  foreach(archive IN LISTS inside)
    target_link_libraries(outbox_${name} PRIVATE $<BUILD_INTERFACE:$<TARGET_FILE:${archive}>>)
    add_dependencies(outbox_${name} ${archive})
    target_link_options(outbox_${name} PRIVATE
      LINKER:--exclude-libs,$<TARGET_FILE_NAME:${archive}>)
  endforeach()
endfunction()

# Sets `out` to the targets, the archives in place of our shared libraries.
function(_outbox_inside out)
  set(result)
  foreach(target IN LISTS ARGN)
    string(REGEX REPLACE "^outbox::(.*)" "outbox_\\1_inside" archive "${target}")
    if(TARGET ${archive})
      set(target ${archive})
    endif()
    list(APPEND result ${target})
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# Compiles the folder's NNN_name.sql files into the target: each becomes an
# entry `{version, "NNN_name", R"sql(...)sql"},` of "<folder>/schema.inc", which
# the store's schema.cc includes inside an array. Ordered by name.
function(outbox_embed_schema target folder)
  file(GLOB files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.sql")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  set(text "// Made from ${folder}/*.sql by cmake/OutboxTarget.cmake.\n")
  foreach(file IN LISTS files)
    cmake_path(GET file STEM name)
    # Without leading zeros: C++ would read them as octal.
    if(NOT name MATCHES "^0*([1-9][0-9]*)_")
      message(FATAL_ERROR "${file}: a migration is called NNN_name.sql, from 001 on")
    endif()
    set(version ${CMAKE_MATCH_1})
    file(READ "${file}" sql)
    string(APPEND text "{${version}, \"${name}\", R\"sql(${sql})sql\"},\n")
  endforeach()
  # Written only when it changed, so that nothing is compiled again otherwise.
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/generated")
  file(CONFIGURE OUTPUT "${generated}/${folder}/schema.inc" CONTENT "@text@" @ONLY)
  target_include_directories(${target} PRIVATE "${generated}")
endfunction()

# outbox_program(<name> SOURCES <file>... [LINK <target>...])
# A program of our own; contains our libraries even if they are shared.
function(outbox_program name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;LINK")
  add_executable(${name} ${ARG_SOURCES})
  _outbox_inside(inside ${ARG_LINK})
  target_link_libraries(${name} PRIVATE ${inside})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  outbox_own_program(${name})
endfunction()

# outbox_part_of_programs(<name> <file>...): a static library of what programs of our own share.
function(outbox_part_of_programs name)
  add_library(${name} STATIC ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(${name} PRIVATE OUTBOX_SOURCE_FOLDER="${PROJECT_SOURCE_DIR}")
  _outbox_own(${name})
endfunction()

# outbox_own_program(<target>): compiles it like all others of this project.
function(outbox_own_program name)
  _outbox_own(${name})
  set_property(GLOBAL APPEND PROPERTY OUTBOX_PROGRAMS ${name})
endfunction()

function(_outbox_own target)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(${target} PRIVATE outbox_build_flags)
  target_compile_options(${target} PRIVATE ${OUTBOX_TEST_FLAGS})
  # ccache reads the precompiled headers themselves, also for what knows nothing of our libraries.
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  # What is precompiled includes GoogleTest, and g++ takes it only where its macros are the same.
  if(OUTBOX_PRECOMPILE AND OUTBOX_BUILD_TESTS)
    target_compile_definitions(${target} PRIVATE GTEST_HAS_PTHREAD=1)
  endif()
  _outbox_precompile(${target} outbox_precompiled)
endfunction()

# outbox_glob(<out> <pattern> <dir>...): the files of the folders, and of their folders for the
# parts that are built. What is for one database alone is in its folder of that name
# (integration/postgres).
function(outbox_glob out pattern)
  set(patterns)
  foreach(folder IN LISTS ARGN)
    foreach(part IN ITEMS "" ${OUTBOX_PARTS})
      list(APPEND patterns "${folder}/${part}/${pattern}")
    endforeach()
  endforeach()
  file(GLOB found CONFIGURE_DEPENDS ${patterns})
  set(${out} ${found} PARENT_SCOPE)
endfunction()
