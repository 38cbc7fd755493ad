#!/usr/bin/env bash
# Sourced by quickstart.sh and all_tests.sh with the extras to install as arguments.
# Makes .venv and installs this package into it; sets PYTHON to its interpreter. Does nothing twice.

find_python() {
  local candidate
  for candidate in python3.11 python3.12 python3.13 python3; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "Python 3.11, 3.12 or 3.13 is needed and was not found; install one, for example: apt-get install python3" >&2
  return 1
}

setup_environment() {
  local extras stamp wanted python
  extras=$(IFS=,; echo "$*")
  stamp=.venv/.installed
  wanted="$extras $(cksum <pyproject.toml)"
  PYTHON="$PWD/.venv/bin/python"
  if [ -x "$PYTHON" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    return
  fi
  python=$(find_python)
  echo "== installing into .venv (a few minutes the first time)"
  [ -x "$PYTHON" ] || "$python" -m venv .venv
  # torch first and pinned: a newer release would bring gigabytes of CUDA to a machine without a GPU.
  "$PYTHON" -m pip install --quiet --disable-pip-version-check "torch==2.13.0"
  "$PYTHON" -m pip install --quiet --disable-pip-version-check -e ".[$extras]"
  echo "$wanted" >"$stamp"
}

setup_environment "$@"
