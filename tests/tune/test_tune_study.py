"""Whole studies of programs that are trained in no time, and one of our trainer."""

from __future__ import annotations

import json
import signal

import pytest

from sample_factory.algorithms.appo.train_appo import main as train
from sample_factory.tune.__main__ import main
from sample_factory.tune.sampling import open_study
from tests.runner.launching import wait_for
from tests.tune.workplace import Workplace

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]


def test_a_study_that_is_killed_twice_has_all_its_trials_and_finds_the_optimum(workplace: Workplace) -> None:
    flags = ("--num_samples=20", "--repeat=2", "--num_eval_seeds=3", "--top_k=2")
    for jobs_by_then in (6, 22):
        tuner = workplace.start(*flags)
        wait_for(lambda number=jobs_by_then: len(workplace.jobs()) >= number, timeout=100)
        tuner.send_signal(signal.SIGKILL)
        tuner.communicate(timeout=20)
        assert not (workplace.study / "report.json").exists()
    assert workplace.run(*flags) == 0
    trials = workplace.trials()
    assert [trial["number"] for trial in trials] == [str(number) for number in range(20)]
    assert {trial["state"] for trial in trials} == {"COMPLETE"}
    jobs = workplace.jobs()
    # Two seeds of twenty trials, and three fresh seeds of the two best and of the default configuration.
    assert len(jobs) == 20 * 2 + 3 * 3
    assert {job["state"] for job in jobs} == {"COMPLETED"}
    best = workplace.report()["params"]
    assert abs(best["x"] - 0.3) < 0.15
    assert abs(best["y"] - 20) <= 6


def test_trial_0_is_the_default_configuration_and_seeds_of_the_phases_differ(workplace: Workplace) -> None:
    assert workplace.run("--num_samples=6", "--repeat=2", "--num_eval_seeds=3", "--top_k=1") == 0
    by_trial = {job["id"]: job for job in workplace.jobs()}
    default = by_trial["search_trial_0000_seed_0"]["argv"]
    assert not [word for word in default if word.startswith(("--x", "--y"))]
    report = workplace.report()
    assert {item["trial"] for item in report["candidates"]} == {0, report["trial"]}
    assert report["phase2"]["seeds"] == [100, 101, 102]
    # The toy's own defaults are x = 0.9 and y = 5: -(0.6^2 + 0.375^2) but for the noise.
    assert float(workplace.trials()[0]["value"]) == pytest.approx(-0.500625, abs=0.01)
    winner = report["candidates"][0]
    assert winner["mean"] == pytest.approx(sum(score for _, _, score in winner["scores"]) / 3)
    assert winner["probability_of_improvement"] == 1.0


def test_reports_are_written_again_without_running_anything(workplace: Workplace) -> None:
    flags = ("--num_samples=5", "--repeat=1", "--num_eval_seeds=2", "--top_k=1")
    assert workplace.run(*flags) == 0
    before = workplace.report()
    for name in ("report.json", "report.html", "report.md", "trials.csv", "best_hp.json"):
        (workplace.study / name).unlink()
    attempts = [len(job["attempts"]) for job in workplace.jobs()]
    assert workplace.run(*flags, "--analyze_only") == 0
    assert workplace.report() == before
    assert [len(job["attempts"]) for job in workplace.jobs()] == attempts
    page = (workplace.study / "report.html").read_text()
    assert page.count("<svg") == 3
    assert "src=" not in page


def test_a_study_keeps_the_settings_it_was_begun_with(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert workplace.run("--num_samples=2", "--repeat=1", "--num_eval_seeds=0") == 0
    assert workplace.run("--num_samples=2", "--repeat=2", "--num_eval_seeds=0") == 2
    assert "was begun with repeat=1, not 2; use --study_name=NEW" in capsys.readouterr().err


def test_more_samples_go_on_with_the_same_study(workplace: Workplace) -> None:
    assert workplace.run("--num_samples=2", "--repeat=1", "--num_eval_seeds=0") == 0
    first = workplace.trials()
    assert workplace.run("--num_samples=4", "--repeat=1", "--num_eval_seeds=0") == 0
    assert workplace.trials()[:2] == first
    assert len({trial["x"] for trial in workplace.trials()}) == 4


def test_a_trial_that_crashes_is_recorded_and_replaced(workplace: Workplace) -> None:
    workplace.write(
        "moody.py",
        "import sys, json\nassert '--x' in ''.join(sys.argv), 'no x'\nprint(json.dumps({'score': 1.0}))",
    )
    assert workplace.run("--num_samples=3", "--repeat=1", "--num_eval_seeds=0", program="moody.py") == 0
    trials = workplace.trials()
    assert [trial["state"] for trial in trials] == ["FAIL", "COMPLETE", "COMPLETE", "COMPLETE"]
    assert "AssertionError: no x" in trials[0]["reason"]


def test_a_study_whose_trials_all_crash_is_given_up(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    workplace.write("broken.py", "raise RuntimeError('out of luck')")
    assert workplace.run("--num_samples=30", "--repeat=1", program="broken.py") == 1
    assert "out of luck" in capsys.readouterr().err.splitlines()[-1]
    assert len(workplace.trials()) < 12


def test_a_score_that_is_no_number_fails_the_trial(workplace: Workplace) -> None:
    workplace.write("nan.py", "print('{\"score\": NaN}')")
    assert workplace.run("--num_samples=1", "--repeat=1", program="nan.py") == 1
    assert {trial["state"] for trial in workplace.trials()} == {"FAIL"}


CURVES = """
    import argparse, json, os, time
    parser = argparse.ArgumentParser()
    for name in ("x", "seed"):
        parser.add_argument(f"--{name}", type=float, default=0.45)
    for name in ("experiment", "train_dir", "experiments_root"):
        parser.add_argument(f"--{name}")
    args, _ = parser.parse_known_args()
    directory = os.path.join(args.train_dir, args.experiments_root, args.experiment)
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "metrics.jsonl"), "w") as file:
        for steps in (100, 200, 300):
            line = {"time": steps, "env_steps": steps, "policy": 0, "0_aux/avg_reward": (1 - args.x) * steps}
            file.write(json.dumps(line) + "\\n")
    if args.x > 0.6:
        time.sleep(1000)  # only pruning ends such a trial
    print(json.dumps({"score": -args.x}))
"""


def test_a_trial_whose_curve_is_worse_than_others_is_stopped_early(workplace: Workplace) -> None:
    workplace.write("curves.py", CURVES)
    workplace.write("space.yaml", "x: [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.8]")
    flags = ("--sampler=grid", "--pruner=median", "--pruner_interval=100", "--num_samples=20", "--repeat=1")
    assert workplace.run(*flags, "--num_eval_seeds=0", program="curves.py") == 0
    states = {trial["x"]: trial["state"] for trial in workplace.trials()}
    assert states["0.7"] == states["0.8"] == "PRUNED"
    assert states["0.0"] == "COMPLETE"
    assert workplace.report()["params"] == {"x": 0.0}


def test_wilcoxon_stops_a_trial_after_some_of_its_seeds(workplace: Workplace) -> None:
    workplace.write("space.yaml", "x: [0.3, 0.9]")
    flags = ("--sampler=grid", "--pruner=wilcoxon", "--num_samples=3", "--repeat=8", "--max_parallel=1")
    assert workplace.run(*flags, "--num_eval_seeds=0", "--set", "y=20") == 0
    default, good, bad = workplace.trials()
    assert (default["state"], good["state"], bad["state"]) == ("COMPLETE", "COMPLETE", "PRUNED")
    # Four pairs are the fewest whose p-value, 1/16, is below 0.1.
    assert len(bad["seed_values"].split()) == 4


def test_a_journal_that_ends_in_half_a_line_can_be_opened(workplace: Workplace) -> None:
    assert workplace.run("--num_samples=2", "--repeat=1", "--num_eval_seeds=0") == 0
    journal = workplace.study / "study.journal"
    with journal.open("ab") as file:
        file.write(b'{"op_code":4,"worker')
    study = open_study(journal, "toy", "maximize")
    study.ask()
    assert len(open_study(journal, "toy", "maximize").trials) == 3


def test_the_winner_of_real_trainings_is_trained_with_one_flag(workplace: Workplace) -> None:
    workplace.write("space.yaml", "learning_rate: {type: float, low: 1e-4, high: 1e-3, log: true}")
    tiny = ["--train_for_env_steps=500", "--serial_mode=True", "--num_workers=1", "--num_envs_per_worker=2"]
    tiny += [
        "--worker_num_splits=1",
        "--batch_size=128",
        "--use_rnn=False",
        "--device=cpu",
        "--hidden_size=16",
    ]
    tiny += ["--decorrelate_experience_max_seconds=0"]
    command = workplace.command("--num_samples=2", "--repeat=1", "--num_eval_seeds=0", *tiny)
    flags = [flag for flag in command[3:] if not flag.startswith(("--cmd", "--env"))]
    assert main([*flags, "--env=gym_CartPole-v1"]) == 0
    winner = workplace.study / "APPO_gym_CartPole-v1_best_hp_eval.json"
    tuned = json.loads(winner.read_text())
    assert train([f"--cfg_file={winner}"]) == 0
    saved = json.loads((workplace.directory / "train_dir" / "default_experiment" / "cfg.json").read_text())
    assert {name: saved[name] for name in tuned} == tuned
    assert saved["batch_size"] == 128
