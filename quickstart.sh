#!/usr/bin/env bash
# Sets everything up in .venv, trains a small policy for a few minutes, and shows what it has learned.
#
#   ./quickstart.sh                              all of it; run it again and it goes on where it stopped
#   ./quickstart.sh --train_for_seconds=60       arguments are passed on to the trainer
set -euo pipefail
cd "$(dirname "$0")"

readonly VENV=.venv
readonly STAMP=$VENV/.quickstart
readonly LOG=$VENV/install.log
readonly TORCH=torch==2.13.0

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
    local what=$1 started=$SECONDS ticker="" status=0
    shift
    if [ -t 1 ]; then
        # The ticker is in the background and not the command: only the foreground hears Ctrl+C.
        while printf '\r%s ... %d s ' "$what" $((SECONDS - started)); do sleep 1; done &
        ticker=$!
        trap 'kill "$ticker" 2>/dev/null' EXIT
    else
        echo "$what ..."
    fi
    "$@" >>"$LOG" 2>&1 || status=$?
    if [ -n "$ticker" ]; then
        kill "$ticker" 2>/dev/null && wait "$ticker" 2>/dev/null || true
        trap - EXIT
        printf '\r'
    fi
    [ "$status" -eq 0 ] || fail "$what failed; the reason is at the end of $LOG."
    echo "$what ... done in $((SECONDS - started)) s"
}

# The extras and the contents of pyproject.toml: when neither has changed there is nothing to install.
wanted_install() {
    echo "$TORCH $1 $(cksum <pyproject.toml)"
}

install() {
    local extras=$1 python
    if [ -x "$VENV/bin/python" ] && [ "$(cat "$STAMP" 2>/dev/null)" = "$(wanted_install "$extras")" ]; then
        return
    fi
    # Without pip it is what a failed attempt left behind.
    if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        python=$(find_python)
        "$python" -m venv "$VENV" >/dev/null ||
            fail "$python cannot make virtual environments; on Debian and Ubuntu, install the package python3-venv."
    fi
    # Pinned and first: an open range resolves to gigabytes of CUDA on machines that cannot use it.
    with_progress "Installing torch" "$VENV/bin/python" -m pip install "$TORCH"
    with_progress "Installing Sample Factory [$extras]" "$VENV/bin/python" -m pip install --editable ".[$extras]"
    wanted_install "$extras" >"$STAMP"
}

extras=gym,plot,video
if [ -f sample_factory/envs/doom/family.py ]; then
    extras=$extras,doom
    experiment=quickstart_doom_basic
    recipe=(
        --env=doom_basic --num_workers=2 --num_envs_per_worker=8 --batch_size=512 --ppo_epochs=2
        --use_rnn=False --recurrence=1 --with_vtrace=False --res_w=64 --res_h=36 --hidden_size=256
        --learning_rate=0.0005 --train_for_env_steps=300000
    )
else
    experiment=quickstart_cartpole
    recipe=(
        --env=gym_CartPole-v1 --num_workers=2 --num_envs_per_worker=16 --batch_size=512 --ppo_epochs=2
        --use_rnn=False --recurrence=1 --with_vtrace=False --encoder_type=mlp --encoder_subtype=mlp_mujoco
        --hidden_size=64 --learning_rate=0.001 --exploration_loss_coeff=0.01 --reward_scale=0.1
        --train_for_env_steps=300000
    )
fi
place=(--train_dir=train_dir --experiment="$experiment")

install "$extras"

if [ -f "train_dir/$experiment/done" ]; then
    echo "train_dir/$experiment was trained before; delete that directory to train it again."
elif [ -f "train_dir/$experiment/cfg.json" ]; then
    echo "Going on with train_dir/$experiment where it stopped."
fi
"$VENV/bin/python" -m sample_factory.algorithms.appo.train_appo --algo=APPO "${recipe[@]}" "${place[@]}" \
    --experiment_summaries_interval=5 "$@" ||
    fail "Training stopped before its end; run ./quickstart.sh again to go on."

# SDL, which some environments draw with, complains on stderr without it.
export XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-${TMPDIR:-/tmp}}
"$VENV/bin/python" -m sample_factory.evaluation.showcase "${place[@]}" "$@"
