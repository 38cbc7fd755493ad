#!/usr/bin/env bash
# Sets everything up in .venv, then lint, types and the tests. Exits non-zero on any failure.
#   ./all_tests.sh              all but those that only repeat on a large scale what others show
#   ./all_tests.sh --long       those too
#   ./all_tests.sh --fast       without the tests that train until a score is reached
set -euo pipefail
cd "$(dirname "$0")"
. ./setup_environment.sh
install_debian_packages tmux slurm-wlm munge chromium chromium-driver
install all,dev

chosen="not long"
case "${1:-}" in
  --fast) chosen="not slow and not learning and not long" && shift ;;
  --long) chosen="" && shift ;;
esac

echo "== lint"
"$PYTHON" -m ruff check .
"$PYTHON" -m ruff format --check .
echo "== types"
"$PYTHON" -m mypy
echo "== tests"
# One thread per process: the tests start many, and the machine may have two cores.
export OMP_NUM_THREADS=1
# By file in two processes, long files first. Tests that watch the machine's timing or start services come after the others:
# they wait more than they work, so that two of them find a machine that is all but free.
later=(tests/session/test_fault_suite.py tests/runner tests/bench)
in_two_processes=(-n 2 --dist loadfile --no-loadscope-reorder -m "$chosen")
"$PYTHON" -m pytest "${in_two_processes[@]}" "${later[@]/#/--ignore=}" "$@"
"$PYTHON" -m pytest "${in_two_processes[@]}" "${later[@]}" "$@"
