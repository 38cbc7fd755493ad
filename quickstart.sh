#!/usr/bin/env bash
# Sets everything up in .venv, trains a small policy for a few minutes, and shows what it has learned.
#
#   ./quickstart.sh                              all of it; run it again and it goes on where it stopped
#   ./quickstart.sh --train_for_seconds=60       arguments are passed on to the trainer
set -euo pipefail
cd "$(dirname "$0")"

. ./setup_environment.sh

extras=gym,plot,video
if [ -f sample_factory/envs/doom/family.py ]; then
    extras=$extras,doom
    experiment=quickstart_doom_basic
    recipe=(
        --env=doom_basic --num_workers=2 --num_envs_per_worker=8 --batch_size=512 --ppo_epochs=2
        --use_rnn=False --recurrence=1 --with_vtrace=False --res_w=64 --res_h=36 --hidden_size=256
        --learning_rate=0.0005 --train_for_env_steps=500000
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
"$PYTHON" -m sample_factory.algorithms.appo.train_appo --algo=APPO "${recipe[@]}" "${place[@]}" \
    --experiment_summaries_interval=5 "$@" ||
    fail "Training stopped before its end; run ./quickstart.sh again to go on."

# SDL, which some environments draw with, complains on stderr without it.
export XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-${TMPDIR:-/tmp}}
"$PYTHON" -m sample_factory.evaluation.showcase "${place[@]}" "$@"
