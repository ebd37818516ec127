# Sourced by tests/run, simulations/demo and .ci/run: installs what is missing on Debian 12, and builds. bash.
# Everything is said on standard error, for callers that answer with JSON.

P2PW_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

P2PW_PACKAGES=(
  # compiler and build
  g++ cmake ninja-build ccache pkg-config
  # libraries
  libtorrent-rasterbar-dev libboost-dev libboost-system-dev libssl-dev libsodium-dev libzstd-dev libxxhash-dev
  libprotobuf-dev protobuf-compiler libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libspdlog-dev
  libcurl4-openssl-dev libhwy-dev libsimdjson-dev libseccomp-dev
  # tests, benchmarks, scripts
  libgtest-dev libgmock-dev libbenchmark-dev minisign python3 jq
  # fuzzers
  clang libclang-rt-14-dev
  # the lab
  iproute2 ethtool user-mode-linux
  # the Debian package, and a look at it from outside
  dpkg-dev file man-db systemd zsh fish debootstrap
)

# Starts by itself where systemd runs; there it is left to whoever uses the machine. Its test is skipped without.
[[ -d /run/systemd/system ]] || P2PW_PACKAGES+=(nginx-light)

p2pw_say() { echo "$*" >&2; }

# Asks nobody and touches no network when all is there.
p2pw_install() {
  local package missing=()
  for package in "${P2PW_PACKAGES[@]}"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || { p2pw_say "these packages are missing, and there is no sudo to install them: ${missing[*]}"; return 1; }
    as_root=(sudo)
  fi
  p2pw_say "installing ${#missing[@]} packages: ${missing[*]}"
  "${as_root[@]}" apt-get -qq update >&2 </dev/null
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
    -o DPkg::Lock::Timeout=300 install "${missing[@]}" >&2 </dev/null
}

# p2pw_build PRESET [TARGET...]: configures once, builds what has changed. Silent when there is nothing to do.
p2pw_build() {
  local preset=$1 folder log
  shift
  case $preset in release) folder=$P2PW_ROOT/build ;; *) folder=$P2PW_ROOT/build-$preset ;; esac
  mkdir -p "$folder"
  log=$folder/build.log
  export CCACHE_BASEDIR=$P2PW_ROOT CCACHE_NOHASHDIR=1
  p2pw_say "building ($preset) in ${folder#"$P2PW_ROOT"/}; the log is ${log#"$P2PW_ROOT"/}"
  if ! { [[ -f $folder/build.ninja ]] || (cd "$P2PW_ROOT" && cmake --preset "$preset"); } >"$log" 2>&1 ||
    ! cmake --build "$folder" ${1:+--target "$@"} >>"$log" 2>&1; then
    grep -E -A15 'FAILED|error:|CMake Error' "$log" | head -80 >&2
    p2pw_say "the build failed; all of it is in $log"
    return 1
  fi
}
