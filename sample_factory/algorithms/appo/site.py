"""The building site: everything that components share.

The session makes one `Site`; each worker gets it pickled (memory and channels travel as file descriptors) and
builds its own component on it, see `builders`. A serial session builds all components on the same site.

Invariant: a site is picklable, and every copy of it means the same memory and the same channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sample_factory.algorithms.appo.board import Board, Stopwatch
from sample_factory.algorithms.appo.inboxes import Channels
from sample_factory.algorithms.appo.plan import Plan, SeedOf
from sample_factory.algorithms.appo.role_stores import RoleArrays
from sample_factory.algorithms.appo.trajectories import SlotLedger, TrajectoryStore
from sample_factory.algorithms.appo.user_code import UserCode
from sample_factory.algorithms.appo.weights import WeightsLayout, WeightStore
from sample_factory.config.config import Config
from sample_factory.monitoring.log import init_worker_logging
from sample_factory.processes.kernel_lock import KernelLock, NoLock
from sample_factory.processes.shared_memory import ArraySpec, SharedArrays

if TYPE_CHECKING:  # the main process of a parallel session runs without torch
    import torch

    from sample_factory.algorithms.appo.probe import Probe
    from sample_factory.model.actor_critic import ActorCritic

SHOWN_ENVS = 4  # in the report of a worker's death
NUMBERS_LABEL = "sample_factory_numbers"
WEIGHTS_LABEL = "sample_factory_weights"


def number_specs(plan: Plan) -> dict[str, ArraySpec]:
    """The ledger and the board, in one slab."""
    board = Board.specs(
        plan.num_policies,
        plan.num_workers,
        plan.num_splits,
        plan.agents_per_split,
        len(plan.component_names()),
        plan.num_seats,
    )
    return SlotLedger.specs(plan.num_slots, plan.num_policies) | board


def _weights_layout(plan: Plan, probe: Probe, actor_id: int) -> WeightsLayout:
    layout = probe.role_of(actor_id).weights
    return layout if actor_id < plan.num_policies else layout.without_moments()


@dataclass(frozen=True)
class Site:
    """What every builder needs."""

    cfg: Config
    plan: Plan
    probe: Probe
    user_code: UserCode
    directory: Path
    numbers: SharedArrays  # ledger and board
    trajectories: SharedArrays
    weights: list[SharedArrays]  # one per policy, then one per seat of the league
    lock: KernelLock | NoLock
    channels: Channels
    resumed_version: int  # 0 in a fresh experiment; makes a resumed session see new episodes
    workers_log_to_console: bool = True  # False while the main process draws on the terminal

    @classmethod
    def make(cls, cfg: Config, plan: Plan, probe: Probe, directory: Path, resumed_version: int) -> Site:
        """Creates the shared memory and the channels of a session."""
        return cls(
            cfg=cfg,
            plan=plan,
            probe=probe,
            user_code=UserCode.capture(),
            directory=directory,
            numbers=SharedArrays(number_specs(plan), NUMBERS_LABEL),
            trajectories=SharedArrays(
                probe.trajectories.specs(plan.num_slots), "sample_factory_trajectories"
            ),
            weights=[
                SharedArrays(_weights_layout(plan, probe, actor_id).specs(), WEIGHTS_LABEL)
                for actor_id in range(plan.num_actors)
            ],
            lock=NoLock() if cfg.serial_mode else KernelLock(),
            channels=Channels.make(plan, local=cfg.serial_mode),
            resumed_version=resumed_version,
        )

    def prepare_worker(self, threads: int) -> None:
        """What every builder does first: log files, thread pools, what users have registered."""
        self.user_code.restore()
        if self.cfg.serial_mode:
            return  # this is the main process, and the session has seen to it
        import torch

        torch.set_num_threads(threads)
        init_worker_logging(self.directory, self.cfg.log_to_file, console=self.workers_log_to_console)

    @property
    def players_are_rated(self) -> bool:
        """Whether policies meet that can be compared: they are several, and all play the same role."""
        return self.plan.players_meet and len(self.probe.roles) == 1

    def board(self) -> Board:
        """The small shared numbers."""
        return Board(self.numbers)

    def ledger(self) -> SlotLedger:
        """Who holds which slot."""
        return SlotLedger(self.numbers, self.lock)

    def store(self) -> TrajectoryStore:
        """All trajectories."""
        return TrajectoryStore(self.probe.trajectories, self.trajectories)

    def store_of(self, policy_id: int) -> TrajectoryStore:
        """All trajectories, as one policy sees them."""
        role = self.probe.role_of(policy_id)
        if len(self.probe.roles) == 1:
            return self.store()
        return TrajectoryStore(role.trajectories, RoleArrays(self.trajectories, role))

    def weight_store(self, policy_id: int) -> WeightStore:
        """One policy's published weights."""
        return WeightStore(_weights_layout(self.plan, self.probe, policy_id), self.weights[policy_id])

    def make_model(self, policy_id: int) -> ActorCritic:
        """A fresh network of one policy."""
        from sample_factory.model.actor_critic import make_actor_critic

        role = self.probe.role_of(policy_id)
        return make_actor_critic(self.cfg, role.obs_space, role.action_space)

    def stopwatch(self, name: str) -> Stopwatch:
        """Books one component's time."""
        return Stopwatch(self.board(), self.plan.component_names().index(name))

    def forget_rollout_worker(self, worker_id: int) -> int:
        """Takes back what a dead rollout worker held: requests, messages, slots; returns how many slots."""
        self.board().withdraw_requests(worker_id)
        self.channels.rollout_workers[worker_id].receive(0.0)
        return self.ledger().reclaim(worker_id)

    def whereabouts(self, worker_id: int, lives: int) -> str:
        """Which environments a rollout worker had in its last life, their seeds, and how far it was."""
        plan = self.plan
        per_worker = plan.num_splits * plan.envs_per_split
        env_ids = range(worker_id * per_worker, (worker_id + 1) * per_worker)
        seed_path = SeedOf.ENVIRONMENT, self.resumed_version, lives - 1
        shown = [f"{env_id} (seed {plan.seed_for(*seed_path, env_id)})" for env_id in env_ids[:SHOWN_ENVS]]
        more = ["..."] if len(env_ids) > SHOWN_ENVS else []
        frames = int(self.board().sampled_frames[worker_id])
        return f"it had environments {', '.join([*shown, *more])} and had sampled {frames} frames"

    def close(self) -> None:
        """Closes this process's descriptors of all of it; the memory lives as long as somebody maps it."""
        for part in (self.numbers, self.trajectories, *self.weights, self.lock, self.channels):
            part.close()

    def device(self, policy_id: int) -> torch.device:
        """Where a policy's networks live: GPUs are given to policies in turn."""
        import torch

        if self.cfg.device == "cpu" or self.plan.num_gpus == 0:
            return torch.device("cpu")
        return torch.device("cuda", policy_id % self.plan.num_gpus)
