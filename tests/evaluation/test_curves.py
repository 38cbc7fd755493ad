import importlib.util

import numpy as np
import pytest

from sample_factory.evaluation.curves import CurveError, learning_curves, plot_learning_curve
from sample_factory.monitoring.metrics import append_metrics

matplotlib = pytest.importorskip("matplotlib")


def experiment(directory, points, policy=0):
    for env_steps, value in points:
        record = {"time": env_steps / 10, "env_steps": env_steps, "policy": policy, "0_aux/avg_reward": value}
        append_metrics(directory / "metrics.jsonl", record)
    return directory


def test_every_policy_that_has_a_score_has_a_curve(tmp_path):
    experiment(tmp_path, [(1, 5.0), (3, 7.0)])
    experiment(tmp_path, [(2, 6.0)], policy=1)
    curves = learning_curves(tmp_path, num_policies=3)
    assert set(curves) == {0, 1}
    assert (curves[0].env_steps.tolist(), curves[0].values.tolist()) == ([1, 3], [5.0, 7.0])
    assert (curves[1].env_steps.tolist(), curves[1].values.tolist()) == ([2], [6.0])


def test_the_picture_shows_the_curve_and_the_random_policy(tmp_path):
    curves = learning_curves(experiment(tmp_path, [(i * 10_000, float(i)) for i in range(30)]))
    plain = plot_learning_curve(curves, tmp_path / "plain.png", title="run")
    compared = plot_learning_curve(curves, tmp_path / "compared.png", title="run", random_score=2.0)
    first, second = (matplotlib.image.imread(path) for path in (plain, compared))
    assert first.shape[:2] == second.shape[:2] == (630, 1050)
    assert np.unique(first.reshape(-1, first.shape[2]), axis=0).shape[0] > 20
    assert not np.array_equal(first, second)


def test_a_single_point_is_drawn_too(tmp_path):
    curves = learning_curves(experiment(tmp_path, [(100, 1.0)]))
    assert plot_learning_curve(curves, tmp_path / "curve.png", title="run").exists()


def test_metrics_without_rewards_are_one_sentence(tmp_path):
    with pytest.raises(CurveError, match=r"^There is no score yet, .*; train for longer\.$"):
        plot_learning_curve(learning_curves(tmp_path), tmp_path / "curve.png", title="run")


def test_a_missing_matplotlib_names_the_extra(tmp_path, monkeypatch):
    curves = learning_curves(experiment(tmp_path, [(100, 1.0)]))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CurveError, match=r"sample-factory-rebuilt\[plot\]"):
        plot_learning_curve(curves, tmp_path / "curve.png", title="run")
