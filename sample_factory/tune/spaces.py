"""Search spaces that come with the program: `--search_space=appo`.

Ranges are wide enough for most environments; copy one into a YAML file to change it. Invariant: every
combination of values is a configuration that trains, given defaults for the rest.
"""

from __future__ import annotations

from typing import Any

_APPO: dict[str, Any] = {
    "learning_rate": {"type": "float", "low": 1e-5, "high": 1e-2, "log": True},
    "gamma": {"type": "choice", "values": [0.9, 0.95, 0.98, 0.99, 0.995, 0.999]},
    "exploration_loss_coeff": {"type": "float", "low": 1e-4, "high": 0.1, "log": True},
    "batch_size": {"type": "choice", "values": [256, 512, 1024, 2048]},
    "ppo_epochs": {"type": "int", "low": 1, "high": 8},
    "ppo_clip_ratio": {"type": "choice", "values": [0.05, 0.1, 0.2, 0.3]},
    "max_grad_norm": {"type": "choice", "values": [0.5, 2.0, 4.0, 10.0]},
    "value_loss_coeff": {"type": "float", "low": 0.1, "high": 1.0},
}

SPACES: dict[str, dict[str, Any]] = {
    "appo": _APPO,
    "appo_model": {
        **_APPO,
        "hidden_size": {"type": "choice", "values": [64, 128, 256, 512]},
        "use_rnn": {"type": "choice", "values": [True, False]},
        "rnn_type": {"type": "choice", "values": ["gru", "lstm"], "when": {"use_rnn": True}},
    },
    "throughput": {
        "num_workers": {"type": "int", "low": 1, "high": 32},
        "num_envs_per_worker": {"type": "choice", "values": [2, 4, 8, 16, 32]},
        "worker_num_splits": {"type": "choice", "values": [1, 2]},
        "policy_workers_per_policy": {"type": "int", "low": 1, "high": 4},
    },
}
