"""docs/performance.md is rendered from results."""

import json
import re
from pathlib import Path

import pytest

from sample_factory.bench.sweeps import SWEEPS
from sample_factory.bench.tables import render, write_page
from sample_factory.bench.workloads import WORKLOADS
from sample_factory.config.parsing import parse_args
from sample_factory.config.validation import validate

ROOT = Path(__file__).resolve().parents[2]


def figures(median, **more):
    return {
        "frames_per_sec": {"median": median, "min": median - 10, "max": median + 20, "windows": []},
        "core_us_per_step": 12.4,
        "peak_pss_mb": 250.6,
        "undisturbed": True,
        **more,
    }


def result(kind, workload="cartpole", **more):
    return {
        "kind": kind,
        "workload": workload,
        "machine": {"cpu": "Abacus", "usable_cores": 2},
        "commit": "0123456789abcdef",
        "uncommitted_changes": False,
        "time": "2026-11-16T05:00:00+00:00",
        **more,
    }


def training(**more):
    split = {"environment": 40, "inference": 20, "learner": 30, "main": 1, "rollout_bookkeeping": 9}
    return result(
        "training",
        command="python -m x",
        num_envs=64,
        cpu_percent=split,
        start_sec=3.14,
        **figures(1000),
        **more,
    )


def page_with(name):
    return f"before\n<!-- speed:{name} -->\nold\n<!-- /speed:{name} -->\nafter\n"


def test_a_training_becomes_a_row_with_speed_split_and_memory():
    text = render(page_with("training"), [training()])
    assert "| cartpole | 64 | 1000 | 990 to 1020 | 12 | 40 / 20 / 30 / 1 / 9 | 251 | 3.1 |" in text
    assert "Abacus, 2 cores; commit 0123456789; 2026-11-16." in text


def test_text_outside_the_markers_stays_and_old_tables_go():
    text = render(page_with("training"), [training()])
    assert text.startswith("before\n<!-- speed:training -->\n")
    assert text.endswith("<!-- /speed:training -->\nafter\n")
    assert "old" not in text


def test_a_marker_without_results_says_so():
    assert "Not measured yet." in render(page_with("sampling"), [training()])


def test_rendering_twice_changes_nothing():
    once = render(page_with("training"), [training()])
    assert render(once, [training()]) == once


def test_disturbed_results_carry_a_warning():
    text = render(page_with("training"), [training() | {"undisturbed": False}])
    assert "Other programs used the machine during cartpole" in text


def test_sampling_shows_the_ratio_to_the_bare_loop():
    ratio = {"median": 0.9512, "min": 0.9, "max": 1.0}
    seen = result(
        "sampling", ratio=ratio, cpu_ratio=0.934, bare_loop=figures(2000), dummy_sampler=figures(1900)
    )
    assert "| cartpole | 2000 | 1900 | 0.95 | 0.90 to 1.00 | 0.93 |" in render(page_with("sampling"), [seen])


def test_a_sweep_over_environments_states_the_memory_of_one():
    rows = [
        {"value": n, "num_envs": n, "num_processes": 5, **figures(100 * n)} | {"peak_pss_mb": 100.0 + 1.5 * n}
        for n in (2, 8)
    ]
    rows.append({"value": 512, "num_envs": 512, "error": "no room"})
    text = render(page_with("scaling:envs"), [result("scaling", sweep="envs", rows=rows)])
    assert "| 8 | 800 | 790 to 820 | 12 | 5 | 112 |" in text
    assert "| 512 | failed |" in text
    assert "1.50 MB for each further environment" in text


def test_a_sweep_measured_in_turn_shows_what_the_pairs_of_windows_say():
    speeds = {1: [100.0, 50.0, 80.0], 4: [90.0, 40.0, 76.0]}  # the machine's speed changed, and both felt it
    rows = [
        {"value": n, "num_envs": 8, "num_processes": 5, **figures(100)}
        | {"frames_per_sec": {"median": 80.0, "min": 40.0, "max": 100.0, "windows": windows}}
        for n, windows in speeds.items()
    ]
    text = render(
        page_with("scaling:policies"), [result("scaling", sweep="policies", rows=rows, in_turn=True)]
    )
    assert "| 4 | 80 | 40 to 100 | 12 | 5 | 251 | 0.90 |" in text


def peer(system, windows, **more):
    speed = {"frames_per_sec": {"median": sorted(windows)[len(windows) // 2], "windows": windows}}
    row = {"system": system, "envs_per_worker": 16, "flags": "", "first_train_sec": 7.6}
    return figures(0) | row | speed | more


def peers(rows, bound=None, **more):
    return result("peers", variant="gru", rows=rows, bound=bound, **more)


def test_systems_side_by_side_show_what_the_pairs_of_windows_say():
    # The machine's speed changed from round to round, and all of them felt it.
    rows = [peer("ours", [100.0, 50.0, 80.0]), peer("sf2", [50.0, 20.0, 20.0])]
    text = render(page_with("peers"), [peers(rows)])
    assert "**cartpole, GRU.** Abacus, 2 cores" in text
    assert "| this project | 2 x 16 | 80 |  |  | 12 | 251 | 8 |" in text
    assert "| Sample Factory 2.1.1 | 2 x 16 | 20 | 2.50 | 2.00 to 4.00 | 12 | 251 | 8 |" in text


def test_a_system_that_failed_is_named():
    failed = {"system": "rllib", "envs_per_worker": 8, "flags": "", "error": "ended while it was measured:"}
    text = render(page_with("peers"), [peers([peer("ours", [1.0]), failed])])
    assert "RLlib 2.60 APPO with 2 x 8 environments ended while it was measured:" in text
    assert "| RLlib" not in text


def test_the_share_of_the_bound_stands_below_with_its_parts():
    rows = [peer("ours", [1.0]), peer("bound_env", [4.0]), peer("bound_forward", [9.0])]
    bound = {"share": {"median": 0.812, "min": 0.7, "max": 0.9}}
    text = render(page_with("peers"), [peers(rows, bound)])
    assert "in core-us: env 12.4, forward 12.4. Of the speed" in text
    assert "reaches 0.81 (0.70 to 0.90)" in text
    assert "| bound_env |" not in text


def test_the_page_is_written_from_the_files_of_a_directory(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(page_with("training"))
    (tmp_path / "training_cartpole.json").write_text(json.dumps(training()))
    write_page(page, tmp_path)
    assert "| cartpole | 64 |" in page.read_text()
    assert not list(tmp_path.glob(".temp_*"))


def test_the_page_in_the_documentation_has_a_place_for_every_kind_of_result():
    marks = set(re.findall(r"<!-- speed:([\w:]+) -->", (ROOT / "docs" / "performance.md").read_text()))
    assert marks == {"training", "sampling", "peers", *(f"scaling:{name}" for name in SWEEPS)}


def test_the_page_in_the_documentation_is_up_to_date():
    page = ROOT / "docs" / "performance.md"
    results = ROOT / "docs" / "results" / "speed"
    files = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    assert render(page.read_text(), files) == page.read_text()


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_are_valid_command_lines(name):
    workload = WORKLOADS[name]
    assert validate(parse_args(workload.training_flags(2, workload.envs_per_worker))) == []
    assert validate(parse_args(workload.sampling_flags(2, workload.sampled_envs))) == []


@pytest.mark.parametrize("name", SWEEPS)
@pytest.mark.parametrize("workload", ["cartpole", "doom_gru"])
def test_every_point_of_a_sweep_is_a_valid_command_line(name, workload):
    sweep = SWEEPS[name]
    points = [sweep.point(WORKLOADS[workload], 2, value) for value in sweep.values]
    for point in points:
        cfg = parse_args(point.flags)
        assert validate(cfg) == []
        assert cfg.num_workers * cfg.num_envs_per_worker == point.num_envs
