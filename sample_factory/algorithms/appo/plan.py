"""How many of everything a session has, decided once before anything is created.

Pure arithmetic on settings and on what the probe found out about the environment and the machine.

Invariant: all components get the same plan, so they agree on every size and index.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sample_factory.algorithms.appo.trajectories import StoreSize
from sample_factory.config.config import Config

LEAGUE_KEEPER = "league_keeper"
PBT_BATCH_GROWTH = 1.5  # how far population-based training may raise a policy's batch size


@dataclass(frozen=True)
class Plan:
    """The numbers of one session."""

    num_policies: int
    num_workers: int
    num_splits: int
    envs_per_split: int
    agents_per_env: int
    policy_workers_per_policy: int  # 0: rollout workers run the networks themselves
    slots_per_batch: int
    backlog_slots: int
    num_slots: int
    trajectories_per_iteration: int  # 0: collecting and learning go on at the same time
    num_gpus: int
    seed: int
    num_seats: int = 0  # places from which past policies act, without learning

    @classmethod
    def make(cls, cfg: Config, agents_per_env: int, num_gpus: int, seed: int) -> Plan:
        """Derives the numbers from settings that have passed validation."""
        local = inference_is_local(cfg, num_gpus)
        num_splits = 1 if local else cfg.worker_num_splits  # nothing to overlap when nobody is waited for
        agents_per_worker = cfg.num_envs_per_worker * agents_per_env
        agents_per_split = agents_per_worker // num_splits
        slots_per_batch = cfg.batch_size * cfg.num_batches_per_iteration // cfg.rollout
        largest_batch = slots_per_batch
        if cfg.with_pbt and cfg.pbt_optimize_batch_size:
            largest_batch = math.ceil(slots_per_batch * PBT_BATCH_GROWTH)
        backlog = backlog_minibatches(cfg) * cfg.batch_size // cfg.rollout
        num_agents = cfg.num_workers * agents_per_worker
        return cls(
            num_policies=cfg.num_policies,
            num_workers=cfg.num_workers,
            num_splits=num_splits,
            envs_per_split=cfg.num_envs_per_worker // num_splits,
            agents_per_env=agents_per_env,
            policy_workers_per_policy=0 if local else cfg.policy_workers_per_policy,
            slots_per_batch=slots_per_batch,
            backlog_slots=backlog,
            num_slots=StoreSize(
                num_workers=cfg.num_workers,
                agents_per_worker=agents_per_worker,
                agents_per_split=agents_per_split,
                num_policies=cfg.num_policies,
                slots_per_batch=largest_batch,
                backlog_slots=max(backlog, largest_batch),
                excess_ratio=cfg.traj_buffers_excess_ratio,
            ).num_slots(),
            trajectories_per_iteration=0
            if cfg.async_rl
            else max(1, slots_per_batch * cfg.num_policies // num_agents),
            num_gpus=num_gpus,
            seed=seed,
            num_seats=cfg.league_seats if cfg.league_fraction > 0 else 0,
        )

    @property
    def agents_per_split(self) -> int:
        """Agents whose trajectories start and end together."""
        return self.envs_per_split * self.agents_per_env

    @property
    def num_actors(self) -> int:
        """Policies that act: those that learn, then those that sit in the league's seats."""
        return self.num_policies + self.num_seats

    @property
    def players_meet(self) -> bool:
        """Whether different policies play in one environment, so that they can be rated."""
        return self.agents_per_env > 1 and self.num_actors > 1

    def policy_workers_of(self, actor_id: int) -> int:
        """How many policy workers serve a policy; one is enough for a guest."""
        return (
            self.policy_workers_per_policy
            if actor_id < self.num_policies
            else min(1, self.policy_workers_per_policy)
        )

    @property
    def local_inference(self) -> bool:
        """Whether rollout workers run the networks themselves."""
        return self.policy_workers_per_policy == 0

    @property
    def min_requests(self) -> int:
        """Requests a policy worker waits for (briefly) before it runs the network."""
        workers = self.num_policies * max(1, self.policy_workers_per_policy)
        return max(1, self.num_workers // workers // 3)

    def component_names(self) -> list[str]:
        """Names of all components, in the order in which a serial session polls them."""
        names = [rollout_worker_name(i) for i in range(self.num_workers)]
        for actor_id in range(self.num_actors):
            names += [policy_worker_name(actor_id, i) for i in range(self.policy_workers_of(actor_id))]
        names += [learner_name(policy_id) for policy_id in range(self.num_policies)]
        return names + ([LEAGUE_KEEPER] if self.num_seats else [])

    def seed_for(self, *path: int) -> int:
        """A seed of its own for everything that is random, all following from the session's seed."""
        return int(np.random.SeedSequence([self.seed, *path]).generate_state(1)[0]) & 0x7FFFFFFF


class SeedOf:
    """First numbers of the paths given to `Plan.seed_for`."""

    ENVIRONMENT, ACTIONS, MAPPING, LEARNER, WARM_UP, POPULATION, LEAGUE = range(7)


def rollout_worker_name(worker_id: int) -> str:
    """As it appears in logs and reports."""
    return f"rollout_worker_{worker_id}"


def policy_worker_name(policy_id: int, index: int) -> str:
    """As it appears in logs and reports."""
    return f"policy_worker_{policy_id}_{index}"


def learner_name(policy_id: int) -> str:
    """As it appears in logs and reports."""
    return f"learner_{policy_id}"


def inference_is_local(cfg: Config, num_gpus: int) -> bool:
    """Resolves `--inference=auto`: on a CPU a hop to another process costs more than it batches."""
    if cfg.inference != "auto":
        return bool(cfg.inference == "rollout_workers")
    return num_gpus == 0 or cfg.device == "cpu"


def backlog_minibatches(cfg: Config) -> int:
    """Minibatches that may pile up behind the one being trained on before collection pauses."""
    if cfg.num_minibatches_to_accumulate < 0:
        return int(2 * cfg.num_batches_per_iteration)
    return int(cfg.num_minibatches_to_accumulate)
