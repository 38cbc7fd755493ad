#!/usr/bin/env bash
# Sourced by quickstart.sh and all_tests.sh: `install gym,doom` makes .venv with this package and these extras.
# Sets PYTHON to its interpreter; does nothing when nothing has changed.

readonly VENV=$PWD/.venv
readonly PYTHON=$VENV/bin/python
readonly STAMP=$VENV/.installed
readonly LOG=$VENV/install.log
readonly TORCH=torch==2.13.0

# Packages are installed uncompiled: without Python's caches every process would compile torch anew.
unset PYTHONDONTWRITEBYTECODE

fail() {
    echo "error: $*" >&2
    exit 1
}

# The oldest supported Python first: that is the one most packages have wheels for.
find_python() {
    local candidate
    for candidate in python3.11 python3.12 python3.13 python3 python; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11, 3.12 or 3.13 is needed and none was found; install one and run this again."
}

# with_progress "what is happening" command...: the command's output goes to the log, seconds go to the screen.
with_progress() {
    local what=$1 started=$SECONDS pid
    shift
    "$@" >>"$LOG" 2>&1 &
    pid=$!
    # A command in the background does not hear Ctrl+C.
    trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
    if [ -t 1 ]; then
        while kill -0 "$pid" 2>/dev/null; do
            printf '\r%s ... %d s ' "$what" $((SECONDS - started))
            sleep 1
        done
        printf '\r'
    fi
    wait "$pid" || { tail -n 20 "$LOG" >&2; fail "$what failed; the whole output is in $LOG."; }
    trap - INT TERM
    echo "$what ... done in $((SECONDS - started)) s"
}

# Programs that some tests talk to; without them, or without the right to install them, those tests say so and skip.
install_debian_packages() {
    local missing=() package
    for package in "$@"; do
        dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
    done
    if [ ${#missing[@]} -eq 0 ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        return
    fi
    mkdir -p "$VENV"
    with_progress "Installing ${missing[*]}" sh -c \
        'apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"' sh "${missing[@]}"
}

install() {
    local extras=$1 python wanted
    # The extras and the contents of pyproject.toml: when neither has changed there is nothing to install.
    wanted="$TORCH $extras $(cksum <pyproject.toml)"
    if [ -x "$PYTHON" ] && grep -qxF "$wanted" "$STAMP" 2>/dev/null; then
        return
    fi
    # Without pip it is what a failed attempt left behind.
    if ! "$PYTHON" -m pip --version >/dev/null 2>&1; then
        python=$(find_python)
        "$python" -m venv "$VENV" >/dev/null ||
            fail "$python cannot make virtual environments; on Debian and Ubuntu, install the package python3-venv."
    fi
    # Pinned and first: an open range resolves to gigabytes of CUDA on machines that cannot use it.
    # Of thousands of modules a few hundred are used, which Python compiles when they are first imported.
    with_progress "Installing torch" "$PYTHON" -m pip install --no-compile "$TORCH"
    with_progress "Installing Sample Factory [$extras]" "$PYTHON" -m pip install --no-compile --editable ".[$extras]"
    echo "$wanted" >>"$STAMP"
}
