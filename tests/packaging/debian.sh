# Part of tests/packaging/try: the Debian packages are made, and installed, upgraded,
# used and removed in a view of the system that is nobody else's.
# shellcheck shell=bash

try_debian() {
  # Ends here where there is none.
  "$here/private-root" "$root" true
  rm -rf "$work"
  "$root/scripts/package" --folder "$work/packages"
  check_copies "$root/build/package/src"
  "$here/private-root" "$root" "$here/try" debian_installed "$build"
}

# What private-root runs: it changes the system.
try_debian_installed() {
  [[ -e /private-root ]] || die "this would change your system; run: try debian $build"
  local libraries found
  work=$build/packaging/debian
  # Images of containers have dpkg leave out what is to read.
  rm -f /etc/dpkg/dpkg.cfg.d/*
  dpkg --purge outbox liboutbox-dev liboutbox0
  system_files >"$work/before"

  make_older
  apt_get install "$work"/older/*.deb
  [[ $(installed_versions) == "0.0.1 0.0.1 0.0.1" ]] || die "installed are: $(installed_versions)"
  apt_get install "$work"/packages/*.deb
  [[ $(installed_versions) == "$version $version $version" ]] ||
    die "after the upgrade there are: $(installed_versions)"
  [[ -z $(dpkg --verify outbox liboutbox-dev liboutbox0) ]] || die "files are not as packaged"
  ls /usr/share/doc/{outbox,liboutbox-dev,liboutbox0}/copyright

  try_installed_program
  libraries=$(dirname "$(dpkg --listfiles liboutbox-dev | grep '/liboutbox_core\.so$')")
  check_symbols "$libraries"
  ldconfig --print-cache | grep -F liboutbox_core.so. || die "ldconfig was not run"
  probe
  consume_package
  mapfile -t found < <(modules)
  with_pkg_config "${found[@]}"
  check_dependencies "$work/cmake/consumer"

  apt_get purge liboutbox0
  [[ ! -e /usr/include/outbox ]] || die "the headers outlive their library"
  # It contains the libraries.
  outbox --version
  apt_get purge outbox
  if ! diff "$work/before" <(system_files); then die "the packages left the system as above"; fi
  if ldconfig --print-cache | grep liboutbox_; then die "ldconfig was not run at the end"; fi
}

apt_get() {
  DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes --no-install-recommends \
    -o Dpkg::Use-Pty=0 -o APT::Sandbox::User=root "$@"
}

installed_versions() {
  dpkg-query --show --showformat '${Version}\n' outbox liboutbox-dev liboutbox0 | xargs
}

system_files() { find /etc /usr /opt /var/lib/dpkg/info -xdev | LC_ALL=C sort; }

# The same packages with an older version, to upgrade from.
make_older() {
  local package folder
  mkdir -p "$work/older"
  for package in "$work"/packages/*.deb; do
    folder=$work/older/$(basename "$package" .deb)
    dpkg-deb --raw-extract "$package" "$folder"
    sed -i "s/\b$version\b/0.0.1/" "$folder/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$folder" "$work/older" >/dev/null
  done
}

# The binary, its man page and its completion, where the system looks for them.
try_installed_program() {
  outbox --version | grep -xF "outbox $version"
  outbox demo --seconds 2 --seed 1
  man --pager=cat outbox | grep '^NAME$' || die "man does not show the page"
  outbox completion bash | cmp - /usr/share/bash-completion/completions/outbox
}

# check_dependencies <program>: what its package would depend on; see docs/compatibility.md.
check_dependencies() {
  local folder=$work/its-package depends
  mkdir -p "$folder/debian"
  touch "$folder/debian/control"
  depends=$(cd "$folder" && dpkg-shlibdeps -O "$1")
  say "$depends"
  [[ $depends == *"liboutbox0 (>= $version)"* && $depends == *"liboutbox0 (<< "* ]] ||
    die "the package of $1 would not depend on these versions of the libraries"
}

# check_symbols <folder>: what the installed shared libraries show.
check_symbols() {
  local library bad
  for library in "$1"/liboutbox_*.so; do
    # Types in the parameters of what is public are no matter.
    bad=$(nm -DC --defined-only "$library" | cut -d ' ' -f 3- | grep -E "$internal" || true)
    [[ -z $bad ]] || die "$library shows what is internal: $bad"
    if readelf -d "$library" | grep -E 'R(UN)?PATH'; then
      die "$library looks for others in a folder of the build"
    fi
  done
  nm -DC --defined-only "$1/liboutbox_core.so" | grep -F ' T outbox::Outbox::start()' >/dev/null ||
    die "liboutbox_core.so does not show its API"
}
internal='^((vtable|typeinfo|typeinfo name) for )?outbox::([a-z_]+::)*(internal::|sql::|\w+::Impl\b)'

# check_copies <folder>: the libraries before they were stripped. A small helper
# may be taken in from the library below, but never what that one shows: it would
# exist twice, and its state with it.
check_copies() {
  local library copies
  for library in "$1"/liboutbox_*.so; do
    if [[ $library == */liboutbox_core.so ]]; then continue; fi
    copies=$(comm -12 <(functions -D "$1/liboutbox_core.so") <(functions "$library"))
    [[ -z $copies ]] || die "$library has a copy of: $copies"
  done
}
functions() { nm --defined-only "$@" | awk 'tolower($2) == "t" { print $3 }' | sort; }

