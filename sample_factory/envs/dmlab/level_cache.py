"""Compiled levels on disk, and which of their seeds a policy has already played.

Compiling a generated layout takes seconds, so DMLab lets us keep the result and use it again. A cache folder
(`<key>` files, and per level a file of `<seed> <key>` lines) is shared by experiments; per experiment and
policy a file of used seeds keeps layouts from being played twice. Every worker process uses the same files.

Invariant: a seed is listed only after its compiled level is complete on disk, and is drawn once per policy.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sample_factory.envs.dmlab.seed_files import SEED_LIMIT, SeedFile

_log = logging.getLogger(__name__)

_SEED_FILE_SUFFIX = ".dm_lvl_seeds"


class DrawnSeed(NamedTuple):
    """A seed to reset a level with, and whether its layout should be in the cache."""

    seed: int
    is_cached: bool


class LevelSeeds:
    """The seeds of one level for one policy: cached and unused ones first, in random order, then new ones."""

    def __init__(self, cached_file: SeedFile, used_file: SeedFile) -> None:
        self._cached_file = cached_file
        self._used_file = used_file
        self._unused = np.empty(0, np.int32)
        self._used = np.empty(0, np.int32)

    def draw(self, rng: np.random.Generator) -> DrawnSeed:
        """Takes a seed that no other process has drawn for this policy, and marks it as used."""
        with self._used_file.locked() as file:
            self._catch_up(rng)
            if len(self._unused):
                drawn = DrawnSeed(int(self._unused[-1]), is_cached=True)
            else:
                drawn = DrawnSeed(new_seed(rng, self._used), is_cached=False)
            self._used_file.append(file, str(drawn.seed))
        return drawn

    def _catch_up(self, rng: np.random.Generator) -> None:
        """Learns what other processes have drawn and compiled, and what this one wrote itself."""
        newly_used = self._used_file.new_seeds()
        self._used = np.concatenate([self._used, newly_used])
        self._unused = self._unused[~np.isin(self._unused, newly_used)]
        newly_cached = self._cached_file.new_seeds()
        if len(newly_cached):
            unused = np.setdiff1d(np.concatenate([self._unused, newly_cached]), self._used)
            self._unused = rng.permutation(unused)


class LevelCache:
    """One process's view of a cache folder.

    Args:
        folder: `--dmlab_level_cache_path`; created when the first level is stored.
        experiment_dir: where the used seeds of this experiment are kept.
    """

    def __init__(self, folder: Path, experiment_dir: Path) -> None:
        self.folder = folder
        self._experiment_dir = experiment_dir
        self._seeds: dict[tuple[str, int], LevelSeeds] = {}

    def draw_seed(self, level_path: str, policy_id: int, rng: np.random.Generator) -> DrawnSeed:
        """A seed that this experiment's policy has never played on this level."""
        key = (level_path, policy_id)
        if key not in self._seeds:
            used_root = self._experiment_dir / f"dmlab_used_lvl_seeds_p{policy_id:02d}"
            used_file = SeedFile(seed_file_path(used_root, level_path), fields=1)
            self._seeds[key] = LevelSeeds(self.cached_seeds(level_path), used_file)
        try:
            return self._seeds[key].draw(rng)
        except OSError as error:
            _log.warning("Cannot note used seeds of level %s (%s); playing a random one.", level_path, error)
            return DrawnSeed(int(rng.integers(SEED_LIMIT)), is_cached=False)

    def cached_seeds(self, level_path: str) -> SeedFile:
        """A fresh reader of the seeds whose layouts are compiled."""
        return SeedFile(seed_file_path(self.folder, level_path), fields=2)

    def fetch(self, key: str, destination: Path) -> bool:
        """Copies a compiled level to where the simulator looks for it; False when there is none."""
        try:
            shutil.copyfile(self.folder / key, destination)
        except FileNotFoundError:
            return False
        except OSError as error:
            # The simulator would load half a file; without one it compiles the level itself.
            destination.unlink(missing_ok=True)
            _log.warning("Cannot read level %s from the cache (%s); compiling it again.", key, error)
            return False
        return True

    def store(self, level_path: str, seed: int, key: str, source: Path) -> None:
        """Keeps a compiled level; a full disk costs the cache entry, not the training."""
        try:
            self._keep_file(key, source)
            cached = self.cached_seeds(level_path)
            with cached.locked() as file:
                cached.append(file, f"{seed} {key}")
        except OSError as error:
            _log.warning(
                "Cannot add level %s to --dmlab_level_cache_path=%s (%s); training goes on without it.",
                key,
                self.folder,
                error,
            )

    def _keep_file(self, key: str, source: Path) -> None:
        target = self.folder / key
        if target.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f".partial_{key}_{os.getpid()}"
        try:
            shutil.copyfile(source, partial)
            with open(partial, "rb") as file:
                os.fsync(file.fileno())
            partial.rename(target)
        finally:
            partial.unlink(missing_ok=True)


class CacheCallbacks:
    """The object an instance of the simulator calls while it resets; the names are the simulator's."""

    def __init__(self, cache: LevelCache, level_path: str) -> None:
        self._cache = cache
        self._level_path = level_path
        self._warned = False
        self.drawn = DrawnSeed(0, is_cached=False)  # the environment sets it before each reset
        self.was_asked = False  # levels that are compiled ahead of time never ask

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Called with the key of the layout that is about to be compiled."""
        self.was_asked = True
        hit = self._cache.fetch(key, Path(pk3_path))
        if not hit and self.drawn.is_cached and not self._warned:
            self._warned = True
            _log.warning(
                "Level %s asks for another layout than the cached one of seed %d; some levels "
                "(language_select_located_object) do so, otherwise the cache is from another DMLab version.",
                self._level_path,
                self.drawn.seed,
            )
        return hit

    def write(self, key: str, pk3_path: str) -> None:
        """Called with the compiled layout after a miss."""
        self._cache.store(self._level_path, self.drawn.seed, key, Path(pk3_path))


def seed_file_path(root: Path, level_path: str) -> Path:
    """Where a level's seeds are listed, in a cache folder or in an experiment's folder of used seeds."""
    return root / f"_{level_path}{_SEED_FILE_SUFFIX}"


def new_seed(rng: np.random.Generator, known: np.ndarray) -> int:
    """A random seed that is not among the known ones."""
    while True:
        seed = int(rng.integers(SEED_LIMIT))
        if not (known == seed).any():
            return seed
