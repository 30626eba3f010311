# One way to declare the project's targets: same warnings, same sanitizers.

find_package(Threads REQUIRED)

# What every target of this project is compiled with, and no user of it.
add_library(outbox_build_flags INTERFACE)
target_compile_features(outbox_build_flags INTERFACE cxx_std_20)
target_compile_options(outbox_build_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  # g++ 12 sees overlapping copies in `"text" + std::to_string(n)` at -O3; there are none.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<BOOL:${OUTBOX_WARNINGS_AS_ERRORS}>:-Werror>)
if(OUTBOX_SANITIZE)
  target_compile_options(outbox_build_flags INTERFACE
    -fsanitize=${OUTBOX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(outbox_build_flags INTERFACE -fsanitize=${OUTBOX_SANITIZE})
endif()

# outbox_library(<name> FOLDERS <dir>... [LINK <target>...] [PRIVATE_LINK <target>...])
# Builds outbox_<name>, alias outbox::<name>, from the sources of the folders.
function(outbox_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "FOLDERS;LINK;PRIVATE_LINK")
  set(sources)
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc")
    list(APPEND sources ${found})
  endforeach()
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  add_library(outbox_${name} ${sources})
  add_library(outbox::${name} ALIAS outbox_${name})
  set_target_properties(outbox_${name} PROPERTIES
    CXX_EXTENSIONS OFF
    EXPORT_NAME ${name}
    POSITION_INDEPENDENT_CODE ON)
  # A library that links ours statically does not export our symbols as its
  # own. The headers carry no export macros, so a shared build keeps them all.
  if(NOT BUILD_SHARED_LIBS)
    set_target_properties(outbox_${name} PROPERTIES
      CXX_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON)
  endif()
  target_compile_features(outbox_${name} PUBLIC cxx_std_20)
  target_include_directories(outbox_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(outbox_${name}
    PUBLIC ${ARG_LINK} Threads::Threads
    PRIVATE $<BUILD_INTERFACE:outbox_build_flags> ${ARG_PRIVATE_LINK})
endfunction()

# outbox_program(<name> SOURCES <file>... [LINK <target>...])
function(outbox_program name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;LINK")
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE outbox_build_flags ${ARG_LINK})
endfunction()

# outbox_test(<name> FOLDERS <dir>... [SOURCES <file>...] [LINK <target>...]
#             [LABELS <label>...] [TIMEOUT <seconds>])
# Builds <name> from the *_test.cc files of the folders, and registers each of
# its tests with ctest. SOURCES are helpers that the tests share.
#
# Tests that take more than a few seconds live in *_long_test.cc files: those
# make a program of their own, <name>_long, whose tests also have the label
# `long`, which `scripts/test --quick` and the sanitizer runs leave out.
function(outbox_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "FOLDERS;SOURCES;LINK;LABELS")
  set(sources)
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS "${folder}/*_test.cc")
    list(APPEND sources ${found})
  endforeach()
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

# Uses the arguments of outbox_test besides its own.
function(_outbox_test_program program program_sources labels timeout)
  outbox_program(${program} SOURCES ${program_sources} ${ARG_SOURCES}
                 LINK ${ARG_LINK} GTest::gtest_main)
  gtest_discover_tests(${program} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${timeout})
  # Not by PROPERTIES: that keeps only the first label of a list.
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${program}_labels.cmake")
  file(CONFIGURE OUTPUT "${labels_file}" @ONLY CONTENT [[
foreach(test IN LISTS @program@_TESTS)
  set_tests_properties("${test}" PROPERTIES LABELS "@labels@")
endforeach()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
endfunction()

# outbox_optional_subdirectory(<dir>...): those that exist.
function(outbox_optional_subdirectory)
  foreach(folder IN LISTS ARGN)
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
      add_subdirectory(${folder})
    endif()
  endforeach()
endfunction()
