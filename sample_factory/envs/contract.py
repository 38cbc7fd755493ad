"""What the engine asks of an environment, and what it looks for in `info`.

Single-agent environments are plain gymnasium environments. The engine resets them: at once after a
termination; after a time-out one decision later, so that the network values the true final observation.

Multi-agent environments have `num_agents > 1` (or `is_multiagent = True`, which wins). All arguments and
results of `reset` and `step` are lists with one entry per agent, and they reset themselves: an entry whose
`terminated` or `truncated` is set comes with the first observation of that agent's next episode. What a
time-out ended on is never seen, so it counts as worth what the last observed state was.

Invariant: the `info` keys below are the only ones the engine reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

NUM_FRAMES = "num_frames"  # simulator frames this step consumed; 1 when absent
TRUE_REWARD = "true_reward"  # at the end of an episode: what reports and PBT rank by; the return when absent
EXTRA_STATS = "episode_extra_stats"  # at the end of an episode: dict of numbers for the summaries
IS_ACTIVE = "is_active"  # False: this agent's action had no effect; the step is not trained on

ACTION_MASK = "action_mask"  # observation key: 1 = allowed, one entry per logit


@dataclass(frozen=True)
class EnvConfig:
    """Where an environment lives: which worker, which place in its vector, which number of all."""

    worker_index: int
    vector_index: int
    env_id: int

    def __getitem__(self, name: str) -> int:
        """`env_config["worker_index"]`, as environments written for Sample Factory 1 ask."""
        return int(getattr(self, name))


@runtime_checkable
class RewardShaping(Protocol):
    """An environment whose reward shaping PBT may tune; found by unwrapping."""

    def get_default_reward_shaping(self) -> dict[str, Any]:
        """The scheme the environment starts with."""

    def get_current_reward_shaping(self, agent_index: int) -> dict[str, Any]:
        """The scheme in force for one agent."""

    def set_reward_shaping(self, reward_shaping: dict[str, Any], agent_index: int) -> None:
        """Replaces one agent's scheme, from the next step on."""


@runtime_checkable
class TrainingInfo(Protocol):
    """An environment that wants to know how far training has come; told at the end of each episode."""

    def set_training_info(self, training_info: dict[str, Any]) -> None:
        """Receives `{"approx_total_training_steps": frames}`."""


def find_interface(env: Any, interface: type) -> Any | None:
    """The outermost layer of a wrapped environment that implements `interface`, or None."""
    layer = env
    while layer is not None:
        if isinstance(layer, interface) and type(layer).__module__.split(".")[0] != "gymnasium":
            return layer
        layer = layer.__dict__.get("env")
    return None


def agents_of(env: Any) -> int:
    """How many agents one environment controls."""
    return int(getattr(env, "num_agents", 1))


def is_multiagent(env: Any) -> bool:
    """Whether `reset` and `step` speak in lists; an explicit `is_multiagent` attribute decides."""
    explicit = getattr(env, "is_multiagent", None)
    return bool(explicit) if explicit is not None else agents_of(env) > 1
