# outbox_embed_schema(<target> <folder>)
# Compiles the folder's NNN_name.sql files into the target: each becomes an
# entry of `outbox::internal::kMigrations` in "<folder>/schema.inc", a header
# that the store's schema.cc includes.
function(outbox_embed_schema target folder)
  file(GLOB files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.sql")
  list(SORT files)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/generated/${folder}/schema.inc")
  set(text "// Made from ${folder}/*.sql by cmake/OutboxSchema.cmake.\n")
  foreach(file IN LISTS files)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    get_filename_component(name "${file}" NAME_WE)
    string(REGEX MATCH "^[0-9]+" version "${name}")
    file(READ "${file}" sql)
    string(APPEND text "{${version}, \"${name}\", R\"sql(${sql})sql\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT "${output}" CONTENT "${text}" @ONLY)
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/generated")
endfunction()
