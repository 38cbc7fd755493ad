"""Batches and learners made by hand, for tests that look at one training iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from sample_factory.algorithms.appo.batcher import Batch
from sample_factory.algorithms.appo.learner import Learner
from sample_factory.algorithms.appo.trajectories import NO_POLICY, TrajectoryLayout
from sample_factory.config.config import Config
from sample_factory.config.parsing import default_cfg
from sample_factory.model.actor_critic import ActorCritic, make_actor_critic
from sample_factory.rl.action_spaces import num_action_parameters, num_actions
from sample_factory.rl.distributions import make_distribution

VECTOR = spaces.Dict({"obs": spaces.Box(-np.inf, np.inf, (3,), np.float32)})
THREE_ACTIONS = spaces.Discrete(3)

SMALL = {
    "encoder_type": "mlp",
    "encoder_subtype": "mlp_mujoco",
    "encoder_extra_fc_layers": 0,
    "hidden_size": 8,
    "rollout": 6,
    "recurrence": 6,
    "batch_size": 48,
    "learning_rate": 1e-3,
    "adam_eps": 1e-3,  # large, so that Adam does not blow rounding errors up
    "device": "cpu",
}


def make_cfg(**changes: Any) -> Config:
    """Settings of a tiny learner; feed-forward unless told otherwise."""
    cfg = default_cfg()
    for name, value in {**SMALL, "use_rnn": False, **changes}.items():
        assert name in cfg, f"no such setting: {name}"
        cfg[name] = value
    return cfg


def make_learner(
    cfg: Config,
    obs_space: spaces.Dict = VECTOR,
    action_space: spaces.Space = THREE_ACTIONS,
    seed: int = 0,
    policy_id: int = 0,
) -> Learner:
    """A learner whose first weights follow from the seed."""
    torch.manual_seed(seed)
    model = make_actor_critic(cfg, obs_space, action_space)
    layout = layout_of(cfg, model, obs_space, action_space)
    return Learner(policy_id, cfg, model, layout, torch.device("cpu"), seed)


def layout_of(
    cfg: Config, model: ActorCritic, obs_space: spaces.Dict, action_space: spaces.Space
) -> TrajectoryLayout:
    """The layout a session would find out by its probe."""
    return TrajectoryLayout(
        rollout=cfg.rollout,
        observations={key: (space.shape or (), str(space.dtype)) for key, space in obs_space.spaces.items()},
        num_actions=num_actions(action_space),
        num_action_parameters=num_action_parameters(action_space),
        rnn_state_size=model.rnn_state_size,
    )


def make_batch(
    learner: Learner,
    obs_space: spaces.Dict = VECTOR,
    seed: int = 1,
    done_probability: float = 0.15,
    num_trajectories: int | None = None,
) -> Batch:
    """Random trajectories of a policy unlike the learner's: every step valid and of version 0."""
    layout, rng = learner._layout, np.random.default_rng(seed)
    n = num_trajectories or (learner.cfg.batch_size * learner.cfg.num_batches_per_iteration // layout.rollout)
    steps, rows = (n, layout.rollout), (n, layout.rollout + 1)
    obs = {key: _observations(rng, space, rows) for key, space in obs_space.spaces.items()}
    dones = rng.random(steps) < done_probability
    rnn_states = rng.normal(size=(*rows, layout.rnn_state_size)).astype(np.float32)
    rnn_states[:, 1:][dones] = 0.0
    arrays = {
        "rnn_states": rnn_states,
        "outputs": _outputs(rng, learner, obs, steps, seed),
        "policy_versions": np.zeros(steps, np.int64),
        "policy_ids": np.full(steps, learner.policy_id, np.int16),
        "rewards": rng.normal(size=steps).astype(np.float32),
        "dones": dones,
        "time_outs": np.zeros(steps, bool),
        "frames": np.ones(steps, np.int32),
    }
    return Batch(arrays=arrays, obs=obs, final_obs={key: array[:, -1] for key, array in obs.items()})


def _observations(rng: np.random.Generator, space: spaces.Space, rows: tuple[int, int]) -> np.ndarray:
    shape = (*rows, *(space.shape or ()))
    if space.dtype == np.int8:  # an action mask: something is always allowed
        mask = rng.integers(0, 2, shape).astype(np.int8)
        mask[..., 0] = 1
        return mask
    if np.issubdtype(space.dtype, np.integer):
        return rng.integers(0, 256, shape).astype(space.dtype)
    return rng.normal(size=shape).astype(space.dtype)


def _outputs(
    rng: np.random.Generator,
    learner: Learner,
    obs: dict[str, np.ndarray],
    steps: tuple[int, int],
    seed: int,
) -> np.ndarray:
    layout, space = learner._layout, learner.model.action_space
    params = torch.from_numpy(0.5 * rng.normal(size=(*steps, layout.num_action_parameters))).float()
    mask = torch.from_numpy(obs["action_mask"][:, :-1]) if "action_mask" in obs else None
    distribution = make_distribution(space, params, mask)
    actions = distribution.sample(torch.Generator().manual_seed(seed))
    values = torch.from_numpy(rng.normal(size=(*steps, 1))).float()
    return torch.cat((actions, params, distribution.log_prob(actions)[..., None], values), dim=-1).numpy()


def invalidate(batch: Batch, steps: Sequence[tuple[int, int]]) -> None:
    """Marks steps `(trajectory, step)` as nobody's."""
    for n, t in steps:
        batch.arrays["policy_ids"][n, t] = NO_POLICY


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    """A copy of everything the network learns or counts."""
    return {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}


def gradients(learner: Learner) -> dict[str, torch.Tensor]:
    """A copy of the gradients of the last SGD step."""
    found = {name: p.grad.clone() for name, p in learner.model.named_parameters() if p.grad is not None}
    assert found
    return found


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    """Whether both hold the same bits."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def no_callback() -> None:
    """For callers that do not care when an SGD step has been made."""
