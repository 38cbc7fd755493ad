"""The league keeper: loads past policies into the seats from which they act.

A component of its own, because loading a checkpoint needs torch, which the session's main process does
without. The board says who shall sit where (`seat_wanted`) and who does (`seat_loaded`).

Invariant: a seat names a member only when that member's weights have been published for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sample_factory.algorithms.appo.board import Activity, Board, Stopwatch
from sample_factory.algorithms.appo.plan import LEAGUE_KEEPER
from sample_factory.algorithms.appo.site import Site
from sample_factory.algorithms.appo.weights import WeightsLayout, WeightStore
from sample_factory.processes.worker import WorkerContext

log = logging.getLogger("sample_factory")

NOBODY = -1  # in a seat


def failed(number: int) -> int:
    """What a seat says when this member can't be loaded."""
    return -2 - number


def member_path(directory: Path, number: int) -> Path:
    """Where a member's checkpoint is."""
    return directory / "league" / f"member_{number:06d}.pth"


class LeagueKeeper:
    """Follows the board."""

    def __init__(
        self,
        directory: Path,
        board: Board,
        seats: Sequence[WeightStore],
        layout: WeightsLayout,
        stopwatch: Stopwatch,
        rest: Callable[[float], object] = lambda seconds: None,
    ):
        self._directory = directory
        self._board = board
        self._seats = seats
        self._layout = layout
        self._watch = stopwatch
        self._rest = rest  # see `WorkerContext`

    def poll(self, timeout: float) -> None:
        """Loads whoever is wanted and not there yet."""
        board = self._board
        changed = False
        for seat, weights in enumerate(self._seats):
            wanted = int(board.seat_wanted[seat])
            if board.seat_loaded[seat] not in (wanted, failed(wanted)):
                board.seat_loaded[seat] = NOBODY
                board.seat_loaded[seat] = self._load(wanted, weights) if wanted != NOBODY else NOBODY
                changed = True
        if not changed:
            self._watch.switch(Activity.WAITING)
            self._rest(timeout)  # seats change every few minutes, and nobody waits for it
            self._watch.switch(Activity.OTHER)

    def _load(self, number: int, weights: WeightStore) -> int:
        """Publishes a member's weights; what its seat says then."""
        from sample_factory.model.checkpoints import CheckpointError, load_checkpoint

        path = member_path(self._directory, number)
        try:
            tensors = load_checkpoint(path).state["model"]
        except (CheckpointError, FileNotFoundError) as error:
            log.warning("Member %d of the league can't be loaded: %s", number, error)
            return failed(number)
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        shapes = {name: shape for name, (shape, _) in self._layout.tensors.items()}
        if {name: array.shape for name, array in arrays.items()} != shapes:
            log.warning("Member %d of the league has another network than this session.", number)
            return failed(number)
        weights.publish(arrays, weights.version + 1)
        return number

    def close(self) -> None:
        """Nothing outlives a league keeper."""


@dataclass(frozen=True)
class LeagueKeeperBuilder:
    """Builds the league keeper."""

    site: Site

    def __call__(self, context: WorkerContext) -> LeagueKeeper:
        """Runs where the keeper runs."""
        site, plan = self.site, self.site.plan
        site.prepare_worker(threads=1)
        seats = [site.weight_store(plan.num_policies + seat) for seat in range(plan.num_seats)]
        watch = site.stopwatch(LEAGUE_KEEPER)
        layout = site.probe.roles[0].weights
        return LeagueKeeper(site.directory, site.board(), seats, layout, watch, context.rest)
