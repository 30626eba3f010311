# Shared by the scripts of this folder; source it, don't run it.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${OUTBOX_JOBS:-$(nproc)}

# ccache makes rebuilds quick where it is installed; nothing depends on it.
if [[ -z ${CMAKE_CXX_COMPILER_LAUNCHER:-} ]] && command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
  # It passes files with precompiled headers by otherwise.
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}
  # Another clone finds what this one has compiled.
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
fi

# The test presets say the same, for those who start ctest themselves.
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

say() { printf '%s\n' "$*"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# The comment block at the top of the calling script is its help text.
print_help() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

# configure <preset> [cmake option]...
configure() {
  local preset=$1
  shift
  local cache=$root/build/$preset/CMakeCache.txt
  local log=$root/build/$preset/configure.log
  local fresh=()
  # A tree that was moved or copied brings a cache that points elsewhere.
  if [[ -f $cache ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
    fresh=(--fresh)
  fi
  mkdir -p "$root/build/$preset"
  if ! (cd "$root" && cmake --preset "$preset" "${fresh[@]}" "$@") >"$log" 2>&1; then
    cat "$log" >&2
    die "cmake could not configure the preset '$preset'; its output is above"
  fi
}

# run_for <preset> <command>...
# The thread sanitizer stops on kernels that randomise more than 28 bits of
# an address: where we may, its programs run without that.
run_for() {
  local preset=$1 bits
  shift
  bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28)
  if [[ $preset == tsan ]] && ((bits > 28)) && setarch --addr-no-randomize true 2>/dev/null; then
    setarch --addr-no-randomize "$@"
  else
    "$@"
  fi
}

# compile <preset> [target]...; without targets, all of them.
compile() {
  local preset=$1
  shift
  local targets=()
  if (($# > 0)); then targets=(--target "$@"); fi
  # The build, too, starts test programs: to list their tests.
  run_for "$preset" cmake --build "$root/build/$preset" --parallel "$jobs" "${targets[@]}"
}

# Those of scripts/services, in the order in which they are started.
# shellcheck disable=SC2034
all_services=(postgres pgbouncer mariadb redis)

# use_services <file>: tells the tests where the servers are, as the file that
# scripts/services wrote says.
use_services() {
  local line
  while read -r line; do export "${line?}"; done <"$1"
}

# begin_services <service>...: starts those that do not run yet; end_services
# stops what was started. Set the trap for the latter first.
services_begun=()
begin_services() {
  local service
  # No test may be left out because its server is missing.
  export OUTBOX_TEST_REQUIRE_SERVICES=1
  if (($# == 0)); then return; fi
  for service in "$@"; do
    if ! "$root/scripts/services" status "$service" >/dev/null; then
      services_begun+=("$service")
      "$root/scripts/services" start --in-memory "$service"
    fi
  done
  use_services "$root/build/services/environment"
}
end_services() {
  if ((${#services_begun[@]} > 0)); then "$root/scripts/services" stop "${services_begun[@]}"; fi
}

# The project's own C++ files, NUL-separated, those not yet added included.
cxx_files() {
  (cd "$root" && find include src tests bench examples -type f \
    \( -name '*.h' -o -name '*.cc' \) -print0 2>/dev/null | sort -z) || true
}
