"""Builds and runs the outside project of the packaging tests with the Conan package."""

from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class OutboxTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["OUTBOX_FROM"] = "package"
        components = self.dependencies["outbox"].cpp_info.components
        toolchain.cache_variables["OUTBOX_COMPONENTS"] = ";".join(components)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder="../../../tests/packaging/consumer")
        cmake.build()

    def test(self):
        if can_run(self):
            database = Path(self.build_folder, "consumer.db")
            for file in database.parent.glob("consumer.db*"):
                file.unlink()
            program = Path(self.build_folder, self.cpp.build.bindir, "consumer")
            self.run(f'"{program}" "{database}"', env="conanrun")
