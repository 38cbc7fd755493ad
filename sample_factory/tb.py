"""Entry point: `python -m sample_factory.tb MASK...` opens TensorBoard on the experiments that match.

TensorBoard runs as a child process and is restarted every `--refresh_every` seconds: it grows with time, and
new experiments that match the masks appear with the restart.

Invariant: however this program ends, the TensorBoard it started ends with it.
"""

from __future__ import annotations

import argparse
import glob
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

_STOP_TIMEOUT_SEC = 5.0


class TensorBoardError(Exception):
    """TensorBoard cannot be started; the message is one sentence for the user."""


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line of this program."""
    parser = argparse.ArgumentParser(
        prog="python -m sample_factory.tb",
        description="Open TensorBoard on the experiments whose directories match the masks.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("filters", nargs="+", metavar="MASK", help="glob masks, relative to --dir")
    parser.add_argument("--dir", default="./train_dir", help="where experiments are")
    parser.add_argument("--port", type=int, default=6006, help="port of the web page")
    parser.add_argument("--quiet", "-q", action="store_true", help="hide what TensorBoard prints")
    parser.add_argument("--refresh_every", "-r", type=int, default=36000, help="seconds until a restart")
    parser.add_argument("--reload_interval", type=int, default=60, help="seconds between looks at the files")
    return parser.parse_args(argv)


def matching_experiments(train_dir: Path, masks: Sequence[str]) -> dict[str, Path]:
    """Directories that match any mask, by the name TensorBoard shows: their path below `train_dir`.

    Raises:
        TensorBoardError: nothing matches, or a path cannot be written in TensorBoard's list of directories.
    """
    train_dir = train_dir.expanduser()
    found: dict[str, Path] = {}
    for mask in masks:
        # A mask that is an absolute path stands for itself: joining leaves it as it is.
        for match in sorted(glob.glob(str(train_dir / Path(mask).expanduser()))):
            path = Path(match)
            if path.is_dir():
                found[os.path.relpath(path, train_dir)] = path
    if not found:
        raise TensorBoardError(
            f"No experiment in {train_dir} matches {' '.join(masks)}; a mask such as '*' shows them all."
        )
    awkward = next((path for path in found.values() if "," in str(path)), None)
    if awkward is not None:
        raise TensorBoardError(
            f"TensorBoard cannot open {awkward} because of the comma in its path; rename it."
        )
    return found


def tensorboard_command(experiments: dict[str, Path], port: int, reload_interval: int) -> list[str]:
    """The command that serves these experiments."""
    # A colon ends the name in TensorBoard's list.
    pairs = [f"{name.replace(':', '_').replace(',', '_')}:{path}" for name, path in experiments.items()]
    return [
        sys.executable,
        "-m",
        "tensorboard.main",
        f"--logdir_spec={','.join(pairs)}",
        f"--port={port}",
        f"--reload_interval={reload_interval}",
        "--max_reload_threads=8",
        "--samples_per_plugin=scalars=200",
    ]


def serve(args: argparse.Namespace) -> int:
    """Runs TensorBoard, restarting it now and then, until it fails or the user stops it; its exit code.

    Raises:
        TensorBoardError: see `matching_experiments`; or TensorBoard is not installed.
    """
    if importlib.util.find_spec("tensorboard") is None:
        raise TensorBoardError(
            "TensorBoard is not installed: pip install 'sample-factory-rebuilt[tensorboard]' brings it."
        )
    while True:
        experiments = matching_experiments(Path(args.dir), args.filters)
        command = tensorboard_command(experiments, args.port, args.reload_interval)
        sys.stderr.write(f"Serving {', '.join(experiments)} on port {args.port}; Ctrl+C ends it.\n")
        exit_code = run_for(command, args.refresh_every, quiet=args.quiet)
        if exit_code is not None:
            return exit_code


def run_for(command: Sequence[str], seconds: float, *, quiet: bool) -> int | None:
    """Runs a command for at most some seconds; its exit code, or None when time was up and it was ended."""
    output = subprocess.DEVNULL if quiet else None
    # A session of its own, so that one signal reaches also the processes TensorBoard starts.
    child = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        return child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end_tree(child)


def _end_tree(child: subprocess.Popen[bytes]) -> None:
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, signal_number)
            child.wait(timeout=_STOP_TIMEOUT_SEC)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _stop(signal_number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; the exit code."""
    args = parse_args(argv)
    signal.signal(signal.SIGTERM, _stop)
    try:
        return serve(args)
    except TensorBoardError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
