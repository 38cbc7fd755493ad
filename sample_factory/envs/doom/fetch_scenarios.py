"""Fetches the Doom scenarios that the vizdoom package does not ship.

    python -m sample_factory.envs.doom.fetch_scenarios

They are data files of a public package: pip downloads it, only those files are taken out of it, and they
land in the user's cache (`scenario_files.cache_dir`). Run by people, by continuous integration and by tests.

Invariant: a file appears in the cache complete and with the right checksum, or not at all.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from sample_factory.envs.doom.scenario_files import SHA256, cache_dir

PACKAGE = "sample-factory==2.1.1"
FOLDER_IN_PACKAGE = "sf_examples/vizdoom/doom/scenarios"
DOWNLOAD_TIMEOUT_SEC = 600


class FetchError(RuntimeError):
    """The scenarios could not be fetched; the message says what to do."""


def missing_files(folder: Path) -> list[str]:
    """Which scenario files are absent from `folder`, or not what they should be."""
    return [name for name, digest in SHA256.items() if _sha256(folder / name) != digest]


def fetch(folder: Path) -> list[str]:
    """Puts what is missing into `folder`; gives the names of the files it added.

    Raises:
        FetchError: the package could not be downloaded, or a file in it is not the expected one.
    """
    missing = missing_files(folder)
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        # In the same file system as the result, so that every file can be moved into place at once.
        with tempfile.TemporaryDirectory(prefix=".fetch_", dir=folder) as scratch:
            _unpack(_download(Path(scratch)), missing, folder)
    return missing


def _download(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(scratch), PACKAGE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_SEC)
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"Downloading {PACKAGE} took more than {DOWNLOAD_TIMEOUT_SEC} seconds.") from error
    wheels = sorted(scratch.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise FetchError(f"`{' '.join(command[1:4])} {PACKAGE}` failed: {reason}")
    return wheels[0]


def _unpack(wheel: Path, names: list[str], folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in names:
            try:
                content = archive.read(f"{FOLDER_IN_PACKAGE}/{name}")
            except KeyError as error:
                raise FetchError(f"{wheel.name} does not contain {name}.") from error
            if hashlib.sha256(content).hexdigest() != SHA256[name]:
                raise FetchError(f"{name} in {wheel.name} is not the expected file and was not kept.")
            partial = wheel.parent / name
            partial.write_bytes(content)
            os.replace(partial, folder / name)


def _sha256(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def main(argv: list[str] | None = None) -> int:
    """Fetches the scenarios and says where they are; returns the exit status."""
    parser = argparse.ArgumentParser(description="Fetch the Doom scenarios that vizdoom does not ship.")
    parser.add_argument("--dest", type=Path, default=cache_dir(), help="Folder; default: %(default)s")
    folder = parser.parse_args(argv).dest
    try:
        added = fetch(folder)
    except (FetchError, OSError) as error:
        print(f"The Doom scenarios could not be fetched: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(f"{len(added)} of {len(SHA256)} scenario files were missing; all are in {folder} now.")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
