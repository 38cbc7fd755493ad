"""Entry point: `sf dashboard` serves the experiments of a train_dir as a page, read-only, to this machine.

Invariant: it listens on the loopback address unless told otherwise, and ends at once when asked to.
"""

from __future__ import annotations

import argparse
import errno
import signal
import socket
import sys
from collections.abc import Sequence
from types import FrameType

from sample_factory.experiments.arguments import add_place, make_parser
from sample_factory.experiments.dashboard.library import Library
from sample_factory.experiments.dashboard.server import DashboardServer
from sample_factory.experiments.errors import ExperimentsError, run_command
from sample_factory.experiments.files import find_experiments

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def parser() -> argparse.ArgumentParser:
    """The flags of this command."""
    made = make_parser(
        "dashboard", "A page about all experiments: curves, speed, videos, populations, errors."
    )
    add_place(made)
    made.add_argument("--port", type=int, default=8870, help="port of the page; 0 takes a free one")
    made.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 is every one")
    made.add_argument(
        "--allow_host",
        nargs="+",
        default=[],
        metavar="NAME",
        help="names under which browsers may ask for it",
    )
    return made


def make_server(args: argparse.Namespace) -> DashboardServer:
    """A server that is ready to serve.

    Raises:
        ExperimentsError: the train_dir does not exist, or the address can't be had.
    """
    find_experiments(args.train_dir)
    names = list(args.allow_host)
    if args.host not in _LOOPBACK:
        names += [args.host, socket.gethostname()]
    try:
        return DashboardServer((args.host, args.port), Library(args.train_dir), names)
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            sentence = f"Port {args.port} is taken, perhaps by another dashboard; try --port={args.port + 1}."
        else:
            sentence = f"--host={args.host} --port={args.port} can't be listened on ({error}); try --port=0."
        raise ExperimentsError(sentence) from error


def _execute(args: argparse.Namespace) -> int:
    with make_server(args) as server:
        shown = "localhost" if args.host in _LOOPBACK else args.host
        sys.stdout.write(f"Serving {args.train_dir} on http://{shown}:{server.port}/ ; Ctrl+C ends it.\n")
        if args.host not in _LOOPBACK:
            sys.stderr.write("warning: everybody who reaches this address can read the experiments.\n")
        sys.stdout.flush()
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return 0
    return 0


def _stop(signal_number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code."""
    args = parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _stop)
    return run_command(lambda: _execute(args))


if __name__ == "__main__":
    sys.exit(main())
