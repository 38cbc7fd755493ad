import importlib.util

import numpy as np
import pytest

from sample_factory.evaluation.curves import CurveError, learning_curves, plot_learning_curve
from sample_factory.monitoring.metrics import append_metrics

matplotlib = pytest.importorskip("matplotlib")


def metrics(path, points, policy=0):
    for env_steps, value in points:
        record = {"time": 1.0, "env_steps": env_steps, "policy": policy, "0_aux/avg_reward": value}
        append_metrics(path, record | {"0_aux/avg_reward_min": value - 1, "0_aux/avg_reward_max": value + 1})
    return path


def test_records_become_one_curve_per_policy():
    records = [
        {"env_steps": 1, "policy": 0, "0_aux/avg_reward": 5.0},
        {"env_steps": 2, "policy": 1, "0_aux/avg_reward": 6.0},
        {"env_steps": 3, "policy": 0, "0_aux/avg_reward": 7.0, "0_aux/avg_reward_min": 1.0},
        {"env_steps": 4, "policy": 0, "train/loss": 1.0},
        {"env_steps": 5, "policy": 0, "0_aux/avg_reward": None},
    ]
    curves = learning_curves(records)
    assert (curves[0].env_steps, curves[0].values, curves[0].low) == ([1, 3], [5.0, 7.0], [])
    assert (curves[1].env_steps, curves[1].values) == ([2], [6.0])


def test_the_png_is_a_picture_of_sane_size_with_something_on_it(tmp_path):
    path = metrics(tmp_path / "metrics.jsonl", [(i * 10_000, float(i)) for i in range(30)])
    output = plot_learning_curve(path, tmp_path / "curve.png", title="run", random_score=2.0)
    assert output.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    picture = matplotlib.image.imread(output)
    assert picture.shape[:2] == (540, 960)
    assert np.unique(picture.reshape(-1, picture.shape[2]), axis=0).shape[0] > 20


def test_a_single_point_is_drawn_too(tmp_path):
    path = metrics(tmp_path / "metrics.jsonl", [(100, 1.0)])
    assert plot_learning_curve(path, tmp_path / "curve.png", title="run").exists()


def test_metrics_without_rewards_are_one_sentence(tmp_path):
    with pytest.raises(CurveError, match="has no 0_aux/avg_reward yet"):
        plot_learning_curve(tmp_path / "metrics.jsonl", tmp_path / "curve.png", title="run")


def test_a_missing_matplotlib_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CurveError, match=r"sample-factory-rebuilt\[plot\]"):
        plot_learning_curve(tmp_path / "metrics.jsonl", tmp_path / "curve.png", title="run")
