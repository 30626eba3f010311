# Debian packages, made by scripts/package from a shared build:
#
#   liboutbox0      the shared libraries
#   liboutbox-dev   headers, CMake package, pkg-config files
#   outbox          the binary, which contains the libraries
#
# Until 1.0 the libraries' soname has the minor version in it (see
# OUTBOX_SOVERSION) and the package's name has not: the shlibs file makes programs
# depend on the right versions.
get_property(dev_packages GLOBAL PROPERTY OUTBOX_DEBIAN_PACKAGES)
list(REMOVE_DUPLICATES dev_packages)
list(PREPEND dev_packages "liboutbox${PROJECT_VERSION_MAJOR} (= ${PROJECT_VERSION})")
list(JOIN dev_packages ", " dev_depends)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME outbox)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR "The outbox project")
set(CPACK_PACKAGE_CONTACT "outbox maintainers <maintainers@outbox.invalid>")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_PACKAGING_INSTALL_PREFIX "/usr")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)

set(CPACK_COMPONENTS_ALL outbox_runtime outbox_development outbox_cli)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(about "Write events in the same transaction as your data, and have every committed one \
delivered, in order, whatever crashes in between.\n.\nThis package has")
set(CPACK_DEBIAN_OUTBOX_RUNTIME_PACKAGE_NAME "liboutbox${PROJECT_VERSION_MAJOR}")
set(CPACK_DEBIAN_OUTBOX_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_OUTBOX_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_OUTBOX_RUNTIME_DESCRIPTION "${about} the shared libraries.")
# The libraries of this package need each other.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/src")

set(CPACK_DEBIAN_OUTBOX_DEVELOPMENT_PACKAGE_NAME liboutbox-dev)
set(CPACK_DEBIAN_OUTBOX_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_OUTBOX_DEVELOPMENT_PACKAGE_DEPENDS "${dev_depends}")
set(CPACK_DEBIAN_OUTBOX_DEVELOPMENT_DESCRIPTION
  "${about} the headers, the CMake package and the pkg-config files.")

set(CPACK_DEBIAN_OUTBOX_CLI_PACKAGE_NAME outbox)
set(CPACK_DEBIAN_OUTBOX_CLI_PACKAGE_SECTION database)
set(CPACK_DEBIAN_OUTBOX_CLI_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_OUTBOX_CLI_DESCRIPTION "${about} the command line.")

# Which versions of the package serve a program that was linked with a library.
string(REGEX MATCH "[0-9]+$" next ${OUTBOX_SOVERSION})
math(EXPR next "${next} + 1")
string(REGEX REPLACE "[0-9]+$" ${next} next ${OUTBOX_SOVERSION})
set(package "liboutbox${PROJECT_VERSION_MAJOR}")
set(shlibs "${PROJECT_BINARY_DIR}/install/shlibs")
file(WRITE "${shlibs}" "")
get_property(libraries GLOBAL PROPERTY OUTBOX_LIBRARIES)
foreach(library IN LISTS libraries)
  file(APPEND "${shlibs}" "liboutbox_${library} ${OUTBOX_SOVERSION} \
${package} (>= ${PROJECT_VERSION}), ${package} (<< ${next}~)\n")
endforeach()
set(CPACK_DEBIAN_OUTBOX_RUNTIME_PACKAGE_CONTROL_EXTRA "${shlibs}")

# Debian wants the license with each package; elsewhere nobody does.
foreach(component IN ITEMS RUNTIME DEVELOPMENT CLI)
  string(TOLOWER outbox_${component} part)
  install(FILES "${PROJECT_SOURCE_DIR}/packaging/debian/copyright"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_OUTBOX_${component}_PACKAGE_NAME}"
    COMPONENT ${part} EXCLUDE_FROM_ALL)
endforeach()

include(CPack)
