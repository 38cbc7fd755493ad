"""The history of a population is read from its events, and drawn."""

from pathlib import Path

import pytest

from sample_factory.experiments import lineage, plot
from sample_factory.experiments.errors import ExperimentsError
from sample_factory.experiments.lineage import read_lineage
from tests.experiments.experiment_folders import START, write_event, write_experiment, write_population


def test_sessions_write_the_file_that_is_read() -> None:
    from sample_factory.algorithms.appo import population

    assert lineage.EVENTS_FILE == population.EVENTS_FILE


def test_copies_name_donor_and_time(tmp_path: Path) -> None:
    history = read_lineage(write_population(tmp_path / "pbt"))
    assert [(c.policy, c.donor, c.time - START) for c in history.copies] == [(0, 1, 60.0)]
    assert (history.num_policies, history.start) == (2, START)


def test_what_was_tuned_has_a_history_from_the_start(tmp_path: Path) -> None:
    history = read_lineage(write_population(tmp_path / "pbt"))
    assert history.tuned_names() == ["learning_rate"]
    assert history.history("learning_rate", 0) == [(START, 1e-4), (START + 60, 2e-4)]
    assert history.history("learning_rate", 1) == [(START, 2e-4), (START + 120, 3e-4)]
    assert history.current == {0: {"learning_rate": 2e-4, "gamma": 0.99}}


def test_objectives_are_known_at_every_decision(tmp_path: Path) -> None:
    history = read_lineage(write_population(tmp_path / "pbt"))
    assert history.objective_history(1) == [(START + 60, 2.0), (START + 120, 2.0)]


def test_a_torn_line_and_an_unknown_objective_cost_only_themselves(tmp_path: Path) -> None:
    directory = write_population(tmp_path / "pbt")
    write_event(directory, 180, 0, "kept", objectives=[None, 5.0])
    with (directory / "pbt_events.jsonl").open("a") as file:
        file.write('{"time": 17000')
    history = read_lineage(directory)
    assert len(history.events) == 3
    assert history.objective_history(0)[-1] == (START + 120, 1.0)


def test_an_experiment_without_a_population_names_the_flags(tmp_path: Path) -> None:
    with pytest.raises(ExperimentsError, match="--with_pbt=True --num_policies=4"):
        read_lineage(write_experiment(tmp_path / "single"))


def test_the_lineage_is_drawn_with_a_panel_per_tuned_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    write_population(tmp_path / "train" / "pbt")
    output = tmp_path / "lineage.svg"
    assert plot.main(["pbt", "pbt", f"--train_dir={tmp_path / 'train'}", f"--output={output}"]) == 0
    assert capsys.readouterr().out == f"{output}\n"
    figure = output.read_text()
    for text in ("pbt: 1 copies", "objective", "learning_rate", "policy 1"):
        assert f"<!-- {text}" in figure
    assert "<!-- gamma" not in figure


def test_several_populations_must_be_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("pbt_a", "pbt_b"):
        write_population(tmp_path / name)
    assert plot.main(["pbt", "pbt*", f"--train_dir={tmp_path}"]) == 2
    assert "name one, as pbt_a" in capsys.readouterr().err
