# outbox_embed_schema(<target> <folder>)
# Compiles the folder's NNN_name.sql files into the target: each becomes an
# entry `{version, "NNN_name", R"sql(...)sql"},` of "<folder>/schema.inc", which
# the store's schema.cc includes inside an array. Ordered by name.
function(outbox_embed_schema target folder)
  file(GLOB files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.sql")
  list(SORT files)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/generated/${folder}/schema.inc")
  set(text "// Made from ${folder}/*.sql by cmake/OutboxSchema.cmake.\n")
  foreach(file IN LISTS files)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    get_filename_component(name "${file}" NAME_WE)
    # Without leading zeros: C++ would read them as octal.
    if(NOT name MATCHES "^0*([1-9][0-9]*)_")
      message(FATAL_ERROR "${file}: a migration is called NNN_name.sql, from 001 on")
    endif()
    set(version ${CMAKE_MATCH_1})
    file(READ "${file}" sql)
    string(APPEND text "{${version}, \"${name}\", R\"sql(${sql})sql\"},\n")
  endforeach()
  # Written only when it changed, so that nothing is compiled again otherwise.
  set(old "")
  if(EXISTS "${output}")
    file(READ "${output}" old)
  endif()
  if(NOT old STREQUAL text)
    file(WRITE "${output}" "${text}")
  endif()
  # Where a shared library's sources are compiled.
  if(TARGET ${target}_inside)
    set(target ${target}_inside)
  endif()
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/generated")
endfunction()
