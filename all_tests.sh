#!/usr/bin/env bash
# Sets everything up in .venv, then lint, types and every test. Exits non-zero on any failure.
#   ./all_tests.sh              everything
#   ./all_tests.sh --fast       without the tests that train until a score is reached
set -euo pipefail
cd "$(dirname "$0")"
. ./setup_environment.sh
install_debian_packages tmux slurm-wlm munge chromium chromium-driver
install all,dev

fast=()
if [ "${1:-}" = "--fast" ]; then
  fast=(-m "not slow and not learning")
  shift
fi

echo "== lint"
"$PYTHON" -m ruff check .
"$PYTHON" -m ruff format --check .
echo "== types"
"$PYTHON" -m mypy
echo "== tests"
# One thread per process: the tests start many, and the machine may have two cores.
export OMP_NUM_THREADS=1
# Tests that watch processes, signals and what is left on the machine run alone; the others by file in two processes.
alone=(tests/session tests/runner tests/bench tests/evaluation tests/processes tests/monitoring)
"$PYTHON" -m pytest -n 2 --dist loadfile "${alone[@]/#/--ignore=}" "${fast[@]}" "$@"
"$PYTHON" -m pytest "${alone[@]}" "${fast[@]}" "$@"
