"""Conan 2 recipe: conan create . --build=missing -s compiler.cppstd=20"""

import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanException, ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir

# What can be left out, besides the binary: each an option, OUTBOX_BUILD_<NAME> of
# CMakeLists.txt and a component; the packages that it requires, and what it links
# of each.
PARTS = {
    "sqlite": {"sqlite3/[>=3.37 <4]": "sqlite3::sqlite3"},
    "postgres": {"libpq/[>=14 <19]": "libpq::libpq"},
    "mysql": {"mariadb-connector-c/[>=3.1 <4]": "mariadb-connector-c::mariadb-connector-c"},
    "redis": {"hiredis/[>=0.14 <2]": "hiredis::hiredis", "openssl/[>=1.1.1 <4]": "openssl::ssl"},
    "prometheus": {"prometheus-cpp/[>=1.0 <2]": "prometheus-cpp::prometheus-cpp-core"},
    "otlp": {"libcurl/[>=7.88 <9]": "libcurl::libcurl"},
}


class OutboxRecipe(ConanFile):
    name = "outbox"
    description = "The transactional outbox for C++"
    license = "Apache-2.0"
    topics = ("outbox", "transactional-outbox", "events", "messaging", "sqlite", "postgresql",
              "mysql", "mariadb", "redis")
    package_type = "library"

    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False], "fPIC": [True, False], "cli": [True, False],
        **{part: [True, False] for part in PARTS}
    }
    default_options = {
        "shared": False, "fPIC": True, "cli": False, **{part: part == "sqlite" for part in PARTS}
    }
    implements = ["auto_shared_fpic"]

    exports = "include/outbox/version.h"
    exports_sources = (
        "CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "packaging/*", "!*_test.cc"
    )
    test_package_folder = "packaging/conan/test_package"

    def set_version(self):
        header = Path(self.recipe_folder, "include/outbox/version.h").read_text(encoding="utf-8")
        parts = re.findall(r"^#define OUTBOX_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.M)
        if len(parts) != 3:
            raise ConanException("include/outbox/version.h does not state the version")
        self.version = ".".join(parts)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        if self.options.cli:
            self.requires("cli11/[>=2.1 <3]", visible=False)
        for _, needs in self._parts():
            for package in needs:
                self.requires(package)

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.25]")

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"outbox runs on Linux only, not on {self.settings.os}")
        if self.options.cli and not self.options.sqlite:
            raise ConanInvalidConfiguration("the option cli needs sqlite: the binary's demo runs on it")

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("cli", *PARTS):
            wanted = "ON" if self.options.get_safe(part) else "OFF"
            toolchain.cache_variables[f"OUTBOX_BUILD_{part.upper()}"] = wanted
        for part in ("TESTS", "EXAMPLES", "BENCH"):
            toolchain.cache_variables[f"OUTBOX_BUILD_{part}"] = False
        toolchain.generate()
        dependencies = CMakeDeps(self)
        # As cmake/FindLibMariaDB.cmake calls it.
        client = "mariadb-connector-c"
        dependencies.set_property(client, "cmake_file_name", "LibMariaDB")
        dependencies.set_property(client, "cmake_target_name", "LibMariaDB::LibMariaDB")
        dependencies.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder, "licenses"))
        # Conan makes its own from what package_info() says.
        rmdir(self, Path(self.package_folder, "lib", "cmake"))
        rmdir(self, Path(self.package_folder, "lib", "pkgconfig"))
        rmdir(self, Path(self.package_folder, "share"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "outbox")
        self._component("core")
        for part, needs in self._parts():
            self._component(part, ["core", *needs.values()])

    def _parts(self):
        return [(part, needs) for part, needs in PARTS.items() if self.options.get_safe(part)]

    def _component(self, name, requires=()):
        component = self.cpp_info.components[name]
        component.libs = [f"outbox_{name}"]
        component.requires = list(requires)
        component.system_libs = ["pthread"]
        component.set_property("cmake_target_name", f"outbox::{name}")
        component.set_property("pkg_config_name", f"outbox-{name}")
        if not self.options.shared:
            component.defines = ["OUTBOX_STATIC"]
