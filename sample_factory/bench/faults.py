"""`sf bench faults`: shows on this machine that a training run survives, and what surviving costs.

With `--kills`: a control run, a run in which random components are killed, another control run, all in one
sitting and of known length. With `--soak_minutes`: an undisturbed run, watched for growth. Results go to a
JSON file and, from there, into the tables of the page beside it.

Invariant: a figure on the page comes from the JSON file, and that from a run of this program.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sample_factory.bench.chaos import KillPlan, RunRecording, record_run
from sample_factory.bench.fault_envs import register_fault_envs
from sample_factory.bench.reliability_page import Check, write_page
from sample_factory.bench.soak import TREE, SoakRecording, record_soak
from sample_factory.benchmark.host import describe_code, describe_host
from sample_factory.config.places import command_without_places
from sample_factory.config.provenance import git_checkout
from sample_factory.monitoring.metrics import METRICS_FILE_NAME, read_metrics

TRAINING = (
    "--algo=APPO",
    "--env=game_pole",
    "--device=cpu",
    "--inference=policy_workers",
    "--encoder_type=mlp",
    "--encoder_subtype=mlp_mujoco",
    "--encoder_extra_fc_layers=0",
    "--hidden_size=64",
    "--nonlinearity=tanh",
    "--use_rnn=False",
    "--with_vtrace=False",
    "--recurrence=1",
    "--num_workers=2",
    "--num_envs_per_worker=8",
    "--worker_num_splits=2",
    "--batch_size=512",
    "--ppo_epochs=4",
    "--ppo_clip_ratio=0.2",
    "--gamma=0.98",
    "--gae_lambda=0.9",
    "--learning_rate=0.0005",
    "--reward_scale=0.1",
    "--exploration_loss_coeff=0.001",
    "--decorrelate_experience_max_seconds=0",
    "--decorrelate_envs_on_one_worker=False",
    "--experiment_summaries_interval=5",
    "--progress=plain",
)
SCORE_TAG = "0_aux/avg_reward"
BEST_SCORE = 500.0
SETTLE_SEC = 30.0  # after the last kill
WANTED_THROUGHPUT = 0.9
STEADY = 0.1  # control runs that differ by more say that the machine has other things to do
NOISE = 0.05  # of the best score; or as far as the control runs are apart, if that is more
FLAT_MB_PER_HOUR = 10.0


@dataclass(frozen=True)
class RunSummary:
    """What one run comes down to."""

    name: str
    seconds: float
    frames: int
    fps: float
    fps_between_kills: float
    frames_per_cpu_second: float  # between kills
    score: float  # after as many frames as the shortest run had
    exit_code: int | None


@dataclass(frozen=True)
class Trainings:
    """Where the trainings are, and what the user has added to their flags."""

    train_dir: Path
    more: tuple[str, ...] = ()

    def flags(self, name: str, seconds: float, seed: int) -> list[str]:
        """The command line of one training."""
        return [
            *TRAINING,
            f"--train_dir={self.train_dir}",
            f"--experiment={self.directory(name).name}",
            "--restart_behavior=overwrite",
            f"--train_for_seconds={int(seconds)}",
            f"--seed={seed}",
            *self.more,
        ]

    def directory(self, name: str) -> Path:
        """Where a training's files are."""
        return self.train_dir / name.replace(" ", "_")

    def output(self, name: str) -> Path:
        """What a training has shown on its screen."""
        return self.train_dir / f"{name.replace(' ', '_')}.txt"

    def score(self, name: str, frames: int) -> float:
        """Mean reward in the last quarter of the first `frames` frames."""
        records = read_metrics(self.directory(name) / METRICS_FILE_NAME)
        rewards = [
            r[SCORE_TAG] for r in records if SCORE_TAG in r and 0.75 * frames <= r["env_steps"] <= frames
        ]
        return statistics.fmean(rewards) if rewards else 0.0


def main(argv: Sequence[str] | None = None) -> int:
    """Measures; returns 0 if everything that was promised has been seen."""
    arguments = _parser().parse_args(argv)
    register_fault_envs()
    output = Path(arguments.output)
    data_path = output.with_suffix(".json")
    data = json.loads(data_path.read_text()) if data_path.exists() else {}
    with tempfile.TemporaryDirectory(prefix="sf_bench_") as folder:
        train_dir = Path(arguments.train_dir or folder)
        train_dir.mkdir(parents=True, exist_ok=True)
        trainings = Trainings(train_dir, tuple(arguments.training))
        if arguments.soak_minutes > 0:
            data["soak"] = _origin(argv) | measure_soak(trainings, arguments.soak_minutes, arguments.seed)
        else:
            plan = KillPlan(arguments.kills, arguments.every, arguments.seed)
            data["kills"] = _origin(argv) | measure_kills(trainings, plan, arguments.margin)
    output.parent.mkdir(parents=True, exist_ok=True)
    data_path.write_text(json.dumps(data, indent=1) + "\n")
    write_page(output, data)
    part = data["soak" if arguments.soak_minutes > 0 else "kills"]
    for check in part["checks"]:
        _tell(f"{'ok  ' if check['passed'] else 'FAIL'} {check['what']}: {check['seen']}\n")
    return 0 if all(check["passed"] for check in part["checks"]) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sf bench faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="components to kill in one run")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two kills, on average")
    parser.add_argument(
        "--margin", type=float, default=0.2, help="extra time, as a share, for slow recoveries"
    )
    parser.add_argument("--soak_minutes", type=float, default=0.0, help="watch an undisturbed run instead")
    parser.add_argument("--seed", type=int, default=1, help="of the trainings and of the choice of victims")
    parser.add_argument(
        "--train_dir", default="", help="keep the experiments here; a temporary folder if empty"
    )
    parser.add_argument("--output", default="docs/reliability.md", help="the page; its data go beside it")
    parser.add_argument("training", nargs="*", help="more flags of the training, after --")
    return parser


def _origin(argv: Sequence[str] | None) -> dict[str, Any]:
    typed = sys.argv[1:] if argv is None else argv
    start = git_checkout(Path(__file__).parent) or Path.cwd()
    code = describe_code(start)
    host = describe_host()
    return {
        "command": command_without_places(shlex.join(["sf", "bench", "faults", *typed])),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": (code[0]["commit"] or "")[:10] if code else "",
        "machine": f"{host['cpu']}, {len(os.sched_getaffinity(0))} cores",
        "training": " ".join(TRAINING),
    }


def measure_kills(trainings: Trainings, plan: KillPlan, margin: float) -> dict[str, Any]:
    """Control, kills, control; what was seen and which promises it keeps."""
    seconds = plan.count * plan.every_sec + SETTLE_SEC
    runs: dict[str, RunRecording] = {}
    for name, this_plan, length, seed in (
        ("control 1", KillPlan(), seconds / 2, plan.seed),
        ("kills", plan, (1 + margin) * seconds, plan.seed + 1),
        ("control 2", KillPlan(), seconds / 2, plan.seed + 2),
    ):
        _tell(f"{name}: {length:.0f} s\n")
        runs[name] = record_run(trainings.flags(name, length, seed), trainings.output(name), this_plan)
    common_frames = min(recording.readings[-1].env_steps for recording in runs.values())
    summaries = {
        name: _summary(name, recording, trainings.score(name, common_frames))
        for name, recording in runs.items()
    }
    chaos = runs["kills"]
    return {
        "runs": [asdict(summary) for summary in summaries.values()],
        "common_frames": common_frames,
        "kills": [asdict(kill) for kill in chaos.kills],
        "roles": _by_role(chaos),
        "losses": [asdict(loss) for loss in chaos.losses],
        "checks": [asdict(check) for check in check_kills(plan, chaos, summaries)],
    }


def _summary(name: str, recording: RunRecording, score: float) -> RunSummary:
    frames, seconds = recording.overall()
    quiet_frames, quiet_seconds, quiet_cpu = recording.between_kills()
    return RunSummary(
        name=name,
        seconds=recording.readings[-1].seconds,
        frames=recording.readings[-1].env_steps,
        fps=frames / seconds,
        fps_between_kills=quiet_frames / quiet_seconds,
        frames_per_cpu_second=quiet_frames / quiet_cpu,
        score=score,
        exit_code=recording.exit_code,
    )


def _by_role(recording: RunRecording) -> list[dict[str, Any]]:
    rows = []
    for role in sorted({kill.role for kill in recording.kills}):
        kills = [kill for kill in recording.kills if kill.role == role]
        times = [kill.recovery_sec for kill in kills if kill.recovery_sec is not None]
        rows.append(
            {
                "role": role,
                "kills": len(kills),
                "recovered": len(times),
                "median_sec": statistics.median(times) if times else None,
                "longest_sec": max(times, default=None),
            }
        )
    return rows


def check_kills(plan: KillPlan, chaos: RunRecording, runs: dict[str, RunSummary]) -> list[Check]:
    """The promises about kills, each with what was seen."""
    control = [runs["control 1"], runs["control 2"]]
    apart = 1 - min(run.fps for run in control) / max(run.fps for run in control)
    speed = runs["kills"].fps_between_kills / statistics.fmean(run.fps for run in control)
    total = runs["kills"].fps / statistics.fmean(run.fps for run in control)
    per_cpu = runs["kills"].frames_per_cpu_second / statistics.fmean(r.frames_per_cpu_second for r in control)
    worse = statistics.fmean(run.score for run in control) - runs["kills"].score
    noise = max(NOISE * BEST_SCORE, abs(control[0].score - control[1].score))
    recovered = sum(kill.recovery_sec is not None for kill in chaos.kills)
    versions = sum(loss.versions_lost for loss in chaos.losses)
    frames = sum(loss.frames_lost for loss in chaos.losses)
    files = chaos.main_descriptors
    quarter = max(1, len(files) // 4)
    growth = statistics.median(files[-quarter:]) - statistics.median(files[:quarter])
    return [
        Check("kills in one run", f"{len(chaos.kills)} of {plan.count}", len(chaos.kills) >= plan.count),
        Check("recovered from", f"{recovered} of {len(chaos.kills)}", recovered == len(chaos.kills)),
        Check("the run completes", f"exit code {chaos.exit_code}", chaos.exit_code == 0),
        Check(f"the control runs agree within {STEADY:.0%}", f"they differ by {apart:.1%}", apart <= STEADY),
        Check(
            f"throughput between kills at least {WANTED_THROUGHPUT:.0%} of the control runs'",
            f"{speed:.1%} (per CPU second {per_cpu:.1%}; recoveries included {total:.1%})",
            speed >= WANTED_THROUGHPUT,
        ),
        Check(
            "score within noise of the control runs'",
            f"{runs['kills'].score:.1f} against {control[0].score:.1f} and {control[1].score:.1f}",
            worse <= noise,
        ),
        Check(
            "no published update lost",
            f"{versions} policy versions and {frames} frames lost by {len(chaos.losses)} dead learners",
            versions == 0 and frames == 0,
        ),
        Check("no orphan", f"{len(chaos.orphans)} processes left", not chaos.orphans),
        Check("nothing left in /dev/shm", f"{len(chaos.shared_memory)} names", not chaos.shared_memory),
        Check(
            "no slot of a dead worker left",
            f"{chaos.most_filling} held at the end by {chaos.num_agents} agents",
            chaos.most_filling <= chaos.num_agents,
        ),
        Check("descriptors of the main process", f"{growth:+.0f} from first to last quarter", growth <= 0),
    ]


def measure_soak(trainings: Trainings, minutes: float, seed: int) -> dict[str, Any]:
    """A long run; how much it grew."""
    flags = trainings.flags("soak", minutes * 60, seed)
    recording = record_soak(flags, trainings.output("soak"), tell=_tell)
    return {
        "minutes": recording.seconds[-1] / 60,
        "frames": recording.env_steps,
        "growth": [asdict(growth) for growth in recording.growth()],
        "by_minute": recording.by_minute(),
        "checks": [asdict(check) for check in check_soak(recording)],
    }


def check_soak(recording: SoakRecording) -> list[Check]:
    """The promises about long runs, each with what was seen."""
    tree = next(growth for growth in recording.growth() if growth.role == TREE)
    slope, interval = tree.slope_mb_per_hour, tree.slope_interval
    return [
        Check("the run completes", f"exit code {recording.exit_code}", recording.exit_code == 0),
        Check(
            f"memory of the whole tree grows by less than {FLAT_MB_PER_HOUR:.0f} MB an hour",
            f"{slope:+.1f} ± {interval:.1f} MB/h from {tree.first_mb:.0f} MB",
            slope < FLAT_MB_PER_HOUR,
        ),
        Check(
            "descriptors of the whole tree do not grow",
            f"{tree.descriptors_first} at first, {tree.descriptors_last} at last",
            tree.descriptors_last <= tree.descriptors_first,
        ),
        Check("no orphan", f"{len(recording.orphans)} processes left", not recording.orphans),
        Check(
            "nothing left in /dev/shm", f"{len(recording.shared_memory)} names", not recording.shared_memory
        ),
    ]


def _tell(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
