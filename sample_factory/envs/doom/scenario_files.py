"""Where the files of Doom scenarios are: in the vizdoom package, or in the user's cache.

Scenarios vizdoom does not ship are put into the cache by `fetch_scenarios`. Environments ask for a file when
they are made, so a missing one is a sentence at start-up.

Invariant: nothing here writes, and nothing is looked for in the working directory.
"""

from __future__ import annotations

import os
from pathlib import Path

from sample_factory.envs.registry import MissingPackageError

FETCH_COMMAND = "python -m sample_factory.envs.doom.fetch_scenarios"

# What can be fetched, and what it must be.
SHA256 = {
    "battle.wad": "b29b461995ae7035095a5283c57ef13393e6839326754e94f5b80af5f07e5484",
    "battle.cfg": "b9c82c83437b5dc5e906c94548b2b36f5ee26884bceeea2e0f77d0353f2f7dab",
    "battle_continuous_turning.cfg": "04960c2d14dfe5a30fc57117314fa9f82f2d658d1f8ed23b8b45a74e1c5b4584",
    "battle2.wad": "0851ae13490433b1e335d427dd391b3e0a6a33a97a16c0190579a2820935e522",
    "battle2_continuous_turning.cfg": "12948c89244a8b52917d85f9ecbc79287a33280d500aaffb3fc16d0b31997656",
    "dwango5.wad": "2b7658f126321fc2ccf953dbbe8d585b4162350080b9715b46fc617d32cdb13a",
    "dwango5_dm.cfg": "e918b8964899fe4d909b694cc73f08563fe9b805c1aecbb0b74d348366052ab8",
    "dwango5_dm_continuous_weap.cfg": "6eb842f220dc3153155a1963732887efd24745b33e10ac515233f8cce6f02044",
    "freedm.wad": "c0b998f0ebd0ce343d56e584546a0d3e177bd7e98e13abecd77e2c00dcd15426",
    "freedm.cfg": "b33db989820642a029416f0209c157a0c0936ce45ebf2a9069865a51cc96be95",
    "ssl2.wad": "3a3165f3cc3e34ede782e2cb2e986802dba641a19ccf2bb8b65f60065f86a601",
    "ssl2.cfg": "f2ad91c6265dcdd3ca16670d895d314b464db429a59a6dd75a3aa08734a7828d",
    "two_colors_easy.wad": "7fe0a1285cf4cd39d4e890ffc91f824131c6667b4d0c26d3bfb6b1ed568c8d8e",
    "two_colors_easy.cfg": "3d54be096385cffd0edb685ca43704d39fcfa9adffde2e6806e27aab98770d6e",
    "two_colors_hard.wad": "fd0cfe76c54b8ad7b95262aab4d284b08ffeb86af5c24c100045c093ca843822",
    "two_colors_hard.cfg": "03092be72fcc6299666680bc96fb3e1137799b519818e78a81f8d1533c846e88",
}


class MissingScenarioError(MissingPackageError):
    """A scenario's file is neither in the vizdoom package nor in the cache."""


def cache_dir() -> Path:
    """Where fetched scenarios are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "sample_factory" / "doom_scenarios"


def find_scenario_file(name: str) -> Path:
    """The full path of a `.wad` or `.cfg` file.

    Args:
        name: an absolute path, or the name of a file of the vizdoom package or of the cache.

    Raises:
        MissingScenarioError: with the command that fetches it.
    """
    import vizdoom

    candidates = (Path(vizdoom.scenarios_path) / name, cache_dir() / name)
    for path in candidates:
        if path.is_file():
            return path
    if name not in SHA256:
        raise MissingScenarioError(
            f"there is no scenario file {name}; a file of your own needs an absolute path"
        )
    raise MissingScenarioError(
        f"the vizdoom package does not ship {name}, which can be fetched once with: {FETCH_COMMAND}"
    )
