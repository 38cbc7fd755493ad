"""How each component is built on the site: rollout workers with their environments, policy workers, learners.

The engine makes the builders; a worker process gets one pickled and calls it where the component shall run.

Invariant: a builder is a small picklable object, and the component it returns is complete.
"""

from __future__ import annotations

import os
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sample_factory.algorithms.appo.plan import (
    Plan,
    SeedOf,
    learner_name,
    policy_worker_name,
    rollout_worker_name,
)
from sample_factory.algorithms.appo.role_stores import RoleActions, RoleMapping
from sample_factory.algorithms.appo.site import Site
from sample_factory.processes.worker import WorkerContext

if TYPE_CHECKING:  # the main process of a parallel session runs without torch
    from collections.abc import Callable, Sequence

    import numpy as np

    from sample_factory.algorithms.appo.acting import ActingPolicy
    from sample_factory.algorithms.appo.learner_worker import LearnerWorker
    from sample_factory.algorithms.appo.matches import MatchBook
    from sample_factory.algorithms.appo.policy_mapping import PolicyMapping
    from sample_factory.algorithms.appo.policy_worker import PolicyWorker
    from sample_factory.algorithms.appo.rollout_worker import RolloutWorker
    from sample_factory.algorithms.appo.split import Split
    from sample_factory.algorithms.appo.trajectories import TrajectoryStore
    from sample_factory.envs.vector import EnvVector


@dataclass(frozen=True)
class RolloutWorkerBuilder:
    """Builds one rollout worker and its environments."""

    site: Site
    worker_id: int

    def __call__(self, context: WorkerContext) -> RolloutWorker:
        """Runs where the worker runs."""
        from sample_factory.algorithms.appo.inference import LocalInference, RemoteInference
        from sample_factory.algorithms.appo.rollout_worker import RolloutLinks, RolloutSettings, RolloutWorker

        site, cfg = self.site, self.site.cfg
        site.prepare_worker(threads=1)
        self._expose_gpu()
        store = site.store()
        inference: Any
        if site.plan.local_inference:
            inference = LocalInference(self._acting_policies(context.life))
        else:
            inference = RemoteInference(self.worker_id, site.board(), site.channels.policy_workers)
        links = RolloutLinks(
            ledger=site.ledger(),
            board=site.board(),
            directory=site.directory,
            inbox=site.channels.rollout_workers[self.worker_id],
            batchers=site.channels.batchers,
            inference=inference,
            reporter=context.reporter,
            stopwatch=site.stopwatch(rollout_worker_name(self.worker_id)),
        )
        pause = 0.0
        if not cfg.benchmark and not cfg.serial_mode and cfg.async_rl and context.life == 0:
            pause = cfg.decorrelate_experience_max_seconds * self.worker_id / site.plan.num_workers
        settings = RolloutSettings(
            to_env_actions=self._to_env_actions(),
            reward_scale=cfg.reward_scale,
            reward_clip=cfg.reward_clip,
            trajectories_per_iteration=site.plan.trajectories_per_iteration,
            pause_after_first_sec=pause,
        )
        splits = [self._split(split_id, store, context) for split_id in range(site.plan.num_splits)]
        return RolloutWorker(self.worker_id, splits, links, settings, self._match_books(splits))

    def _match_books(self, splits: Sequence[Split]) -> list[MatchBook]:
        from sample_factory.algorithms.appo.matches import MatchBook

        plan, seats = self.site.plan, self.site.board().seat_loaded
        if not self.site.players_are_rated:
            return []
        return [MatchBook(split.mapping, plan.agents_per_env, plan.num_policies, seats) for split in splits]

    def _expose_gpu(self) -> None:
        gpus = self.site.cfg.actor_worker_gpus
        if gpus and not self.site.cfg.serial_mode:
            os.environ["CUDA_VISIBLE_DEVICES"] = str(gpus[self.worker_id % len(gpus)])

    def _to_env_actions(self) -> Callable[[np.ndarray], Any]:
        from sample_factory.rl.action_spaces import to_env_actions

        probe = self.site.probe
        if len(probe.roles) == 1:
            return partial(to_env_actions, probe.roles[0].action_space)
        return RoleActions(probe.agent_roles, probe.roles, to_env_actions)

    def _acting_policies(self, life: int) -> dict[int, Any]:
        site = self.site
        path = SeedOf.ACTIONS, site.resumed_version, life, self.worker_id
        return {
            actor_id: _acting_policy(site, actor_id, site.plan.seed_for(*path, actor_id))
            for actor_id in range(site.plan.num_actors)
        }

    def _split(self, split_id: int, store: TrajectoryStore, context: WorkerContext) -> Split:
        import numpy as np

        from sample_factory.algorithms.appo.messages import next_tick
        from sample_factory.algorithms.appo.split import Split

        plan, cfg = self.site.plan, self.site.cfg
        place = self.site.resumed_version, context.life, self.worker_id, split_id
        mapping = self._mapping(split_id, plan.seed_for(SeedOf.MAPPING, *place))
        last_tick = int(self.site.board().split_ticks[self.worker_id, split_id])  # of an earlier life
        split = Split(split_id, self._vector(split_id, context), store, mapping, next_tick(last_tick))
        split.vector.tell_policies(mapping.policies)
        split.vector.reset(split.carried_rows)
        context.beat()
        if cfg.decorrelate_envs_on_one_worker:
            rng = np.random.default_rng(plan.seed_for(SeedOf.WARM_UP, *place))
            first = split_id * plan.envs_per_split
            steps = [
                cfg.rollout * (first + i) + cfg.rollout * int(rng.integers(5))
                for i in range(plan.envs_per_split)
            ]
            split.vector.warm_up(steps, split.carried_rows, context.beat)
        return split

    def _mapping(self, split_id: int, seed: int) -> PolicyMapping:
        from sample_factory.algorithms.appo.league_mapping import Guests, LeagueMapping
        from sample_factory.algorithms.appo.policy_mapping import PolicyMapping

        plan, cfg = self.site.plan, self.site.cfg
        shape = plan.envs_per_split, plan.agents_per_env
        if plan.num_seats:
            guests = Guests(cfg.league_fraction, plan.num_policies, self.site.board().seat_loaded)
            return LeagueMapping(guests, *shape, mix=cfg.pbt_mix_policies_in_one_env, seed=seed)
        mix = cfg.pbt_mix_policies_in_one_env
        fixed_from = None if cfg.async_rl else self._first_env_id(split_id)
        roles = self.site.probe.agent_roles
        if len(self.site.probe.roles) > 1:
            return RoleMapping(roles, plan.envs_per_split, plan.num_policies, mix, seed, fixed_from)
        return PolicyMapping(*shape, plan.num_policies, mix, seed, fixed_from)

    def _first_env_id(self, split_id: int) -> int:
        plan = self.site.plan
        return (self.worker_id * plan.num_splits + split_id) * plan.envs_per_split

    def _vector(self, split_id: int, context: WorkerContext) -> EnvVector:
        from sample_factory.envs.batched import as_batched
        from sample_factory.envs.batched_vector import BatchedVector
        from sample_factory.envs.contract import EnvConfig
        from sample_factory.envs.journal import JournaledVector
        from sample_factory.envs.make import make_env, make_vector_env
        from sample_factory.envs.multi_agent_vector import MultiAgentVector
        from sample_factory.envs.replacement import Replacements
        from sample_factory.envs.vector import SingleAgentVector

        plan, cfg = self.site.plan, self.site.cfg
        first = self._first_env_id(split_id)
        seed_path = SeedOf.ENVIRONMENT, self.site.resumed_version, context.life
        batch = make_vector_env(cfg.env, cfg, plan.envs_per_split)
        if batch is not None:
            return BatchedVector(as_batched(batch), plan.seed_for(*seed_path, first), cfg.value_bootstrap)

        def make(place: int) -> Any:
            context.beat()
            vector_index = split_id * plan.envs_per_split + place
            return make_env(cfg.env, cfg, EnvConfig(self.worker_id, vector_index, first + place))

        places = range(plan.envs_per_split)
        replacements = Replacements(make, [first + place for place in places])
        envs = [replacements.make(place) for place in places]
        seeds = [plan.seed_for(*seed_path, first + place) for place in places]
        if self.site.probe.is_multiagent:
            return MultiAgentVector(envs, seeds, replacements)
        kind = JournaledVector if cfg.serial_mode else SingleAgentVector
        return kind(envs, seeds, cfg.value_bootstrap, replacements)


@dataclass(frozen=True)
class PolicyWorkerBuilder:
    """Builds one policy worker."""

    site: Site
    policy_id: int
    index: int

    def __call__(self, context: WorkerContext) -> PolicyWorker:
        """Runs where the worker runs."""
        from sample_factory.algorithms.appo.policy_worker import PolicyLinks, PolicyWorker

        site = self.site
        site.prepare_worker(threads=1)
        inbox = site.channels.policy_workers[self.policy_id][self.index]
        if context.life > 0:
            inbox.receive(0.0)  # requests to the one that died are repeated by the rollout workers
        seed = site.plan.seed_for(
            SeedOf.ACTIONS,
            site.resumed_version,
            context.life,
            site.plan.num_workers + self.index,
            self.policy_id,
        )
        links = PolicyLinks(
            board=site.board(),
            inbox=inbox,
            rollout_inboxes=site.channels.rollout_workers,
            stopwatch=site.stopwatch(policy_worker_name(self.policy_id, self.index)),
        )
        acting = _acting_policy(site, self.policy_id, seed)
        return PolicyWorker(
            self.policy_id, acting, links, 1 if site.cfg.serial_mode else site.plan.min_requests
        )


@dataclass(frozen=True)
class LearnerBuilder:
    """Builds one policy's learner with its batcher, from the policy's last checkpoint if there is one."""

    site: Site
    policy_id: int

    def __call__(self, context: WorkerContext) -> LearnerWorker:
        """Runs where the learner runs."""
        import torch

        from sample_factory.algorithms.appo.batcher import Batcher
        from sample_factory.algorithms.appo.learner import Learner
        from sample_factory.algorithms.appo.learner_worker import LearnerLinks, LearnerWorker

        site, cfg = self.site, copy(self.site.cfg)  # a policy's settings may go their own way
        site.prepare_worker(learner_threads(cfg.learner_threads, site.plan))
        seed = site.plan.seed_for(SeedOf.LEARNER, self.policy_id)
        torch.manual_seed(seed)
        model = site.make_model(self.policy_id)
        store, ledger, board = site.store_of(self.policy_id), site.ledger(), site.board()
        learner = Learner(self.policy_id, cfg, model, store.layout, site.device(self.policy_id), seed)
        batcher = Batcher(
            self.policy_id,
            store,
            ledger,
            board,
            site.channels.batchers[self.policy_id],
            site.channels.rollout_workers,
        )
        links = LearnerLinks(
            board=board,
            weights=site.weight_store(self.policy_id),
            reporter=context.reporter,
            beat=context.beat,
            stopwatch=site.stopwatch(learner_name(self.policy_id)),
            directory=site.directory,
        )
        return LearnerWorker(learner, batcher, links, site.plan, is_restart=context.life > 0)


def _acting_policy(site: Site, policy_id: int, seed: int) -> ActingPolicy:
    from sample_factory.algorithms.appo.acting import ActingPolicy
    from sample_factory.model.numpy_policy import NumpyPolicy

    model = site.make_model(policy_id)
    use_numpy = NumpyPolicy.fits(model, site.probe.role_of(policy_id).obs_space)
    store, weights = site.store_of(policy_id), site.weight_store(policy_id)
    return ActingPolicy(model, weights, store, seed, site.device(policy_id), use_numpy=use_numpy)


def learner_threads(wanted: int, plan: Plan) -> int:
    """Threads a learner computes with: half of the cores, shared between the policies, unless told."""
    from sample_factory.processes.affinity import available_cores

    return wanted or max(1, len(available_cores()) // 2 // plan.num_policies)
