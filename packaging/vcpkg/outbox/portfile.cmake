# Builds the tree that this file is part of:
#
#   vcpkg install outbox --overlay-ports=<outbox>/packaging/vcpkg
#
# vcpkg knows a build by the files of this folder: after a change of the sources
# add --no-binarycaching.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS options FEATURES
  cli OUTBOX_BUILD_CLI
  sqlite OUTBOX_BUILD_SQLITE
  postgres OUTBOX_BUILD_POSTGRES
  mysql OUTBOX_BUILD_MYSQL
  redis OUTBOX_BUILD_REDIS
  prometheus OUTBOX_BUILD_PROMETHEUS
  otlp OUTBOX_BUILD_OTLP)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${options} -DOUTBOX_BUILD_TESTS=OFF -DOUTBOX_BUILD_EXAMPLES=OFF -DOUTBOX_BUILD_BENCH=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/outbox)
vcpkg_fixup_pkgconfig()
if("cli" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES outbox AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
