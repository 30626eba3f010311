"""Stands in for a package of ConanCenter, so that our recipe can be tried without it:
what Debian has installed, by the names that the real recipe gives it.

    conan create tests/packaging/conan --name=sqlite3 --version=3.40.1
"""

from conan import ConanFile
from conan.errors import ConanException

# Package: CMake's name for it, its target, the component that has it, the library, and
# where its headers are if not where all are.
KNOWN = {
    "sqlite3": ("SQLite3", "SQLite::SQLite3", None, "sqlite3", None),
    "cli11": ("CLI11", "CLI11::CLI11", None, None, None),
    "libpq": ("PostgreSQL", "PostgreSQL::PostgreSQL", None, "pq", "/usr/include/postgresql"),
    "mariadb-connector-c": (
        "mariadb-connector-c", "mariadb-connector-c::mariadb-connector-c", None, "mariadb",
        "/usr/include/mariadb"
    ),
    "hiredis": ("hiredis", "hiredis::hiredis", None, "hiredis", None),
    "openssl": ("OpenSSL", "OpenSSL::SSL", "ssl", "ssl", None),
    "prometheus-cpp": (
        "prometheus-cpp", "prometheus-cpp::core", "prometheus-cpp-core", "prometheus-cpp-core", None
    ),
    "libcurl": ("CURL", "CURL::libcurl", None, "curl", None),
}


class SystemPackage(ConanFile):
    package_type = "shared-library"

    def validate(self):
        if self.name not in KNOWN:
            raise ConanException(f"tests/packaging/conan/conanfile.py: add {self.name} to KNOWN")

    def package_info(self):
        file, target, component, library, headers = KNOWN[self.name]
        info = self.cpp_info.components[component] if component else self.cpp_info
        self.cpp_info.set_property("cmake_file_name", file)
        info.set_property("cmake_target_name", target)
        info.includedirs = [headers] if headers else []
        info.libdirs = info.bindirs = []
        info.system_libs = [library] if library else []
