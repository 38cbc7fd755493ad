"""The rules of a match over the network, each player's place in it, and the UDP port it is played on.

Every player is an engine of its own; the first one hosts, the others join it over the loopback interface.
`env.DoomEnv` asks its seat for the engine's arguments, `multiplayer` reserves one port for all of them.

Invariant: a reserved port is not given to any other process of this user until its holder has started.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from sample_factory.envs.doom.game_process import file_lock
from sample_factory.envs.doom.janitor import user_temp_dir

BASE_PORT = 40300
BASE_PORT_VARIABLE = "DOOM_DEFAULT_UDP_PORT"
FIRST_PORT, LAST_PORT = 1024, 65535  # those anybody may open
PORT_STEP = 1000

# Players that miss a deadline end the whole process (see `game_process`), so it is a generous one.
CONNECT_TIMEOUT_SEC = 60
CONNECT_TIMEOUT_FOR_HUMANS_SEC = 600

HOUSE_RULES = (
    "+sv_forcerespawn 1 +sv_noautoaim 1 +sv_respawnprotect 1 +sv_spawnfarthest 1 "
    "+sv_nocrouch 1 +sv_nojump 1 +sv_nofreelook 1 +sv_noexit 1"
)


@dataclass(frozen=True)
class MatchRules:
    """What all players of a match agree on.

    Args:
        local_players: agents of this process.
        humans: seats kept free for players who join from elsewhere.
        minutes: length of the match.
        respawn_delay_sec: how long the dead wait.
    """

    local_players: int
    humans: int = 0
    minutes: float = 4.0
    respawn_delay_sec: int = 0


@dataclass(frozen=True)
class Seat:
    """One player's place in a match; player 0 hosts it."""

    rules: MatchRules
    player: int
    first_port: int = BASE_PORT

    def arguments(self, port: int) -> str:
        """The engine's arguments for this player."""
        rules = self.rules
        timeout = CONNECT_TIMEOUT_FOR_HUMANS_SEC if rules.humans else CONNECT_TIMEOUT_SEC
        identity = f"+name AI{self.player} +colorset 0 +viz_connect_timeout {timeout}"
        if self.player > 0:
            return f"-join 127.0.0.1:{port} {identity}"
        # The environment ends the match; the engine's own end comes later, as it would show nothing.
        limit = f"+timelimit {rules.minutes + 1:g} +viz_respawn_delay {rules.respawn_delay_sec}"
        seats = rules.local_players + rules.humans
        return f"-host {seats} -port {port} -deathmatch {limit} {HOUSE_RULES} {identity}"


def first_port(worker_index: int, vector_index: int) -> int:
    """The port an environment tries first, different for every environment of an experiment."""
    base = int(os.environ.get(BASE_PORT_VARIABLE, BASE_PORT))
    return base + 100 * worker_index + vector_index


@contextlib.contextmanager
def reserve_port(first: int) -> Iterator[int]:
    """A UDP port nobody uses, `PORT_STEP` further on for each one that is taken.

    Raises:
        OSError: every candidate is taken.
    """
    span = LAST_PORT + 1 - FIRST_PORT
    for offset in range(0, span, PORT_STEP):
        port = FIRST_PORT + (first - FIRST_PORT + offset) % span
        with file_lock(user_temp_dir() / f"doom_port_{port}.lockfile", timeout_sec=0.0) as locked:
            if locked and _is_free(port):
                yield port
                return
    raise OSError(f"No UDP port for a Doom match is free; set {BASE_PORT_VARIABLE} to another range.")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
