"""Tic-tac-toe, worked out in full: what two strategies get against each other, and what the best answer gets.

Knows nothing of PettingZoo or of networks, so that it can judge what was learned. A strategy gives each
position the probabilities of the nine squares for whoever is to move.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

Board = tuple[int, ...]  # nine squares: 0 empty, 1 the first player's, 2 the second player's
Strategy = Mapping[Board, np.ndarray]

EMPTY: Board = (0,) * 9
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def result(board: Board) -> float | None:
    """1 when the first player has won, -1 when the second has, 0 for a draw, None while the game goes on."""
    for a, b, c in LINES:
        if board[a] and board[a] == board[b] == board[c]:
            return 1.0 if board[a] == 1 else -1.0
    return None if 0 in board else 0.0


def to_move(board: Board) -> int:
    """Who is to move: 1 or 2."""
    return 1 if board.count(1) == board.count(2) else 2


def moves(board: Board) -> dict[int, Board]:
    """What may be played, and what comes of it."""
    player = to_move(board)
    return {i: (*board[:i], player, *board[i + 1 :]) for i in range(9) if board[i] == 0}


@cache
def positions() -> tuple[Board, ...]:
    """Every position that can be reached, finished games too."""
    found = {EMPTY: None}  # a dictionary keeps the order
    waiting = [EMPTY]
    while waiting:
        board = waiting.pop()
        if result(board) is None:
            new = [following for following in moves(board).values() if following not in found]
            found.update(dict.fromkeys(new))
            waiting += new
    return tuple(found)


def decisions() -> list[Board]:
    """The positions in which somebody is to move."""
    return [board for board in positions() if result(board) is None]


def uniform() -> Strategy:
    """Any free square, all alike."""
    return {board: np.equal(board, 0) / board.count(0) for board in decisions()}


def greedy(strategy: Strategy) -> Strategy:
    """Always the likeliest square."""
    return {board: np.eye(9)[int(np.argmax(chances))] for board, chances in strategy.items()}


def value(first: Strategy | None, second: Strategy | None) -> float:
    """What the first player gets on average; None stands for the best answer to the other side."""

    @cache
    def of(board: Board) -> float:
        known = result(board)
        if known is not None:
            return known
        following = {square: of(after) for square, after in moves(board).items()}
        is_first = to_move(board) == 1
        strategy = first if is_first else second
        if strategy is None:
            return max(following.values()) if is_first else min(following.values())
        return float(sum(strategy[board][square] * worth for square, worth in following.items()))

    return of(EMPTY)


def losses_to_best_answer(strategy: Strategy) -> tuple[float, float]:
    """What a strategy loses a game, as first and as second player, to an opponent who knows it."""
    return -value(strategy, None), value(None, strategy)


def observation(board: Board, player: int) -> np.ndarray:
    """What the environment shows to a player: for each square mine, theirs; then whether it is my turn."""
    planes = np.stack((np.equal(board, player), np.equal(board, 3 - player)), axis=1)
    return np.append(planes.ravel(), result(board) is None and to_move(board) == player).astype(np.int8)


def mask(board: Board, player: int) -> np.ndarray:
    """The squares that a player may take."""
    return (np.equal(board, 0) & (to_move(board) == player)).astype(np.int8)
