# Part of tests/packaging/try: the Conan recipe, in a cache of its own. What comes from
# ConanCenter otherwise is stood in for by Debian's packages; see conan/conanfile.py.
# shellcheck shell=bash

try_conan() {
  if ! command -v conan >/dev/null; then
    say "Skipped: there is no conan here; put version 2 on the PATH: pip install conan"
    exit 77
  fi
  export CONAN_HOME=$work/home
  rm -rf "$work"
  mkdir -p "$work"
  conan profile detect
  cat >"$work/profile" <<END
include(default)
[settings]
compiler.cppstd=20
# Compiles faster.
build_type=Debug
[platform_tool_requires]
cmake/$(cmake --version | sed -n 's/^cmake version //p')
END
  conan_stand_in sqlite3 "$(pkg-config --modversion sqlite3)"
  conan_stand_in cli11 "$(pkg-config --modversion CLI11)"
  conan_stand_in libpq "$(pkg-config --modversion libpq)"
  conan_stand_in mariadb-connector-c "$(pkg-config --modversion libmariadb)"
  conan_stand_in hiredis "$(pkg-config --modversion hiredis)"
  conan_stand_in openssl "$(pkg-config --modversion libssl)"
  conan_stand_in prometheus-cpp "$(pkg-config --modversion prometheus-cpp-core)"
  conan_stand_in libcurl "$(pkg-config --modversion libcurl)"

  conan_create
  conan_create -o '&:shared=True' -o '&:cli=True' -o '&:postgres=True' \
    -o '&:mysql=True' -o '&:redis=True' -o '&:prometheus=True' -o '&:otlp=True'
}

# conan_stand_in <package> <version>
conan_stand_in() { conan create "$here/conan" --name="$1" --version="$2" --no-remote; }

# conan_create <option>...: packs it, and builds and runs the consumer with the package.
conan_create() {
  conan create "$root" --profile:all="$work/profile" --no-remote "$@" 2>&1 | tee "$work/create.log"
  grep -qxF 'received {"cents":1999}' "$work/create.log" || die "the consumer did not run"
}
