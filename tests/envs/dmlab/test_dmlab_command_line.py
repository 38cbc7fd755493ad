"""The DMLab-30 experiment as people type it, at small scale, on the stand-in: every part of it at once."""

import json
import signal
from pathlib import Path

import pytest

from sample_factory.algorithms.appo.exits import ExitStatus
from sample_factory.algorithms.appo.population import EVENTS_FILE
from sample_factory.envs.dmlab.levels import DMLAB30
from tests.envs.dmlab.conftest import STANDIN_PATH
from tests.envs.dmlab.published import PUBLISHED_COMMAND
from tests.session.running import Program, log_text, metric

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(320)]

EXPERIMENT = "dmlab_30_resnet_4pbt_w90_v12"
# One worker per level and two environments each; short rollouts of small pictures, so that two cores suffice.
# Episodes of one step: policies change environments after ten, and each must meet every level.
SMALL = (
    "--num_workers=30 --num_envs_per_worker=2 --rollout=8 --recurrence=8 --batch_size=64 "
    "--res_w=24 --res_h=18 --decorrelate_experience_max_seconds=0 "
    "--pbt_period_env_steps=1000 --pbt_start_mutation=2000 --experiment_summaries_interval=1 --progress=plain"
)
POLICIES = range(4)
CAPPED_MEAN = "_dmlab/000_capped_mean_human_norm_score"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run, stopped when the population has decided something: its directory, the program, its status."""
    directory = tmp_path_factory.mktemp("dmlab_30")
    (directory / "datasets" / "brady_konkle_oliva2008").mkdir(parents=True)
    flags = [*PUBLISHED_COMMAND.split(), *SMALL.split()]
    flags += [f"--train_dir={directory}", f"--dmlab_level_cache_path={directory / 'cache'}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(directory))  # where the tilde of --dmlab30_dataset leads
        patch.setenv("DMLAB_STANDIN_EPISODE_FRAMES", "4")
        program = Program(flags, directory, python_path=[STANDIN_PATH])
    decisions = directory / EXPERIMENT / EVENTS_FILE
    try:
        program.wait_until(decisions.exists, "decision of the population", seconds=240)
        program.process.send_signal(signal.SIGINT)
        yield directory, program, program.wait(60)
    finally:
        program.end()


def test_the_command_of_the_dmlab_30_experiment_trains_and_leaves_nothing_behind(trained):
    _, program, exit_code = trained
    assert exit_code == ExitStatus.INTERRUPTED, program.output
    assert "Traceback" not in program.output
    program.assert_nothing_left()


def test_every_policy_gets_a_score_over_all_thirty_levels(trained):
    directory, _, _ = trained
    for policy_id in POLICIES:
        scores = metric(directory, CAPPED_MEAN, EXPERIMENT, policy_id)
        assert scores, log_text(directory, EXPERIMENT)[-2000:]
        assert all(-100.0 < score <= 100.0 for score in scores)


def test_the_population_is_ranked_by_that_score(trained):
    directory, _, _ = trained
    events = (directory / EXPERIMENT / EVENTS_FILE).read_text().splitlines()
    ranked = {tuple(json.loads(line)["objectives"]) for line in events}
    scores = {score for policy in POLICIES for score in metric(directory, CAPPED_MEAN, EXPERIMENT, policy)}
    assert ranked
    assert {round(value, 6) for ranking in ranked for value in ranking} <= {round(s, 6) for s in scores}


def test_generated_levels_are_cached_and_their_seeds_are_used_once_per_policy(trained):
    directory, _, _ = trained
    level = next(level for level in DMLAB30 if level.episodes_per_billion)
    seed_file = Path("_contributed") / "dmlab30" / f"{level.name}.dm_lvl_seeds"
    cached = dict(line.split() for line in (directory / "cache" / seed_file).read_text().splitlines())
    assert all((directory / "cache" / key).is_file() for key in cached.values())
    for policy_id in POLICIES:
        used_in = directory / EXPERIMENT / f"dmlab_used_lvl_seeds_p{policy_id:02d}" / seed_file
        used = used_in.read_text().split()
        assert used
        assert len(used) == len(set(used))
