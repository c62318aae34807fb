#!/usr/bin/env bash
# Installs the Debian packages that Rookery is built from. Safe to run again: installs what is missing. Works as root, or
# with sudo. scripts/setup.sh --tests: also what the tests need; --bench: also what the benchmarks need.
set -euo pipefail

packages=(
  g++ cmake ninja-build mold pkg-config git            # build
  libtorch-dev libopenblas-pthread-dev libhwy-dev      # tensors and kernels
  libboost1.81-dev protobuf-compiler libprotobuf-dev   # network
  libssl-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libtomlplusplus-dev libcli11-dev libsentencepiece-dev
  libgtest-dev libgmock-dev python3                    # tests
)
command -v npm >/dev/null || packages+=(npm)           # the dashboard's page; data for benchmarks
case "${1:-}" in
  "") ;;
  --tests) packages+=(clang libclang-rt-14-dev chromium prometheus) ;;  # fuzzing, the page in a browser, promtool
  --bench) packages+=(python3-torch libbenchmark-dev libgloo-dev libopenmpi-dev openmpi-bin iproute2 chromium) ;;
  *)
    echo "usage: scripts/setup.sh [--tests|--bench]" >&2
    exit 2
    ;;
esac

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [[ "$status" == "install ok installed" ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: needs root to install ${missing[*]}; run it as root, or install sudo" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "setup: done"
