"""What a study leaves for people and programs: trials.csv, the winner's settings, report.json, .md and .html.

`study_run` calls it at the end, and for `--analyze_only`. `<algo>_<env>_best_hp_eval.json` is a configuration
and nothing else, so that the trainer takes it: `--cfg_file=FILE`.

Invariant: everything here follows from the journal and the run records, and can be written again.
"""

from __future__ import annotations

import csv
import html
import importlib.util
import io
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sample_factory.benchmark import html_report
from sample_factory.benchmark.commands.arguments import write_whole
from sample_factory.benchmark.number_format import bounds, duration, mean_and_std, score
from sample_factory.benchmark.run_record import strict_json
from sample_factory.benchmark.tables import Table, to_html, to_markdown, to_text
from sample_factory.config.experiment_files import write_json
from sample_factory.tune import figures
from sample_factory.tune.confirmation import Confirmed
from sample_factory.tune.flags import TuneOptions
from sample_factory.tune.sampling import importances
from sample_factory.tune.search import CONFIGURATION, PRUNED, REASON, SEED_SCORES
from sample_factory.tune.space import Params
from sample_factory.tune.trial_jobs import DEFAULT_TRIAL

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_SHOWN_TRIALS = 10


def write_trials(study: Study, options: TuneOptions) -> None:
    """Writes trials.csv: one row per trial."""
    trials = study.get_trials(deepcopy=False)
    names = list(dict.fromkeys(name for trial in trials for name in _params(trial)))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["number", "state", "value", "seed_values", "duration", *names, "reason"])
    for trial in trials:
        scores = " ".join(f"{value!r}" for _, _, value in trial.user_attrs.get(SEED_SCORES) or [])
        seconds = trial.duration.total_seconds() if trial.duration else None
        row = [trial.number, _state(trial), _blank(trial.value), scores, _blank(seconds)]
        row += [_blank(_params(trial).get(name)) for name in names]
        writer.writerow([*row, trial.user_attrs.get(REASON, "")])
    write_whole(options.directory / "trials.csv", text.getvalue().encode())


def write_reports(study: Study, options: TuneOptions, confirmed: Sequence[Confirmed]) -> None:
    """Writes everything else."""
    content = report_content(study, options, confirmed)
    write_json(options.directory / "report.json", strict_json(content))
    winner = {key: content[key] for key in ("trial", "params", "phase1", "phase2")}
    write_json(options.directory / "best_hp.json", strict_json(winner))
    write_json(winner_file(options), strict_json(_configuration(options, content["params"])))
    write_whole(options.directory / "report.md", _markdown(study, options, confirmed).encode())
    write_whole(options.directory / "report.html", _html(study, options, confirmed).encode())


def report_content(study: Study, options: TuneOptions, confirmed: Sequence[Confirmed]) -> dict[str, Any]:
    """The winner and how it was found, as report.json has it; without a confirmation phase 1 decides."""
    number = confirmed[0].candidate.number if confirmed else study.best_trial.number
    trial = study.get_trials(deepcopy=False)[number]
    return {
        "format": "sample_factory.study/1",
        "study": options.study_name,
        "trial": number,
        "is_default": number == DEFAULT_TRIAL,
        "params": _params(trial),
        "common_params": dict(options.params),
        "phase1": {"value": trial.value, "seed_scores": trial.user_attrs.get(SEED_SCORES)},
        "phase2": _phase2(confirmed[0]) if confirmed else None,
        "candidates": [{"trial": item.candidate.number, **_phase2(item)} for item in confirmed],
        "num_trials": len(study.get_trials(deepcopy=False)),
        "importances": importances(study, options.space.names),
    }


def winner_file(options: TuneOptions) -> Path:
    """The configuration that `--cfg_file` takes."""
    envs = "_".join(options.objective.envs).replace("/", "-")
    return options.directory / f"{options.algo}_{envs}_best_hp_eval.json"


def print_result(study: Study, options: TuneOptions, confirmed: Sequence[Confirmed]) -> None:
    """The result for a terminal: the table to stdout, what to do with it to stderr."""
    table = _candidate_table(confirmed) if confirmed else _best_table(study, options)
    sys.stdout.write(to_text(table) + "\n")
    sys.stderr.write(
        f"train with the winner: {_winner_command(options)}\nmore: {options.directory}/report.html\n"
    )


def _phase2(item: Confirmed) -> dict[str, Any]:
    return {
        "seeds": sorted({seed for _, seed in item.scores}),
        "scores": [[env, seed, value] for (env, seed), value in sorted(item.scores.items())],
        "mean": item.mean,
        "std_pop": item.std,
        "ci": [item.ci.low, item.ci.high],
        "phase1": item.candidate.phase1,
        "params": item.candidate.params,
        "probability_of_improvement": item.improvement,
        "probability_of_improvement_ci": (
            [item.improvement_ci.low, item.improvement_ci.high] if item.improvement_ci else None
        ),
        "runs_without_score": item.failed,
    }


def _configuration(options: TuneOptions, params: Params) -> Params:
    """All that the winner's trainings were told, except seeds and places."""
    envs = options.objective.envs
    identity = {"algo": options.algo, **({"env": envs[0]} if len(envs) == 1 else {})}
    return {**identity, **options.params, **params}


def _candidate_table(confirmed: Sequence[Confirmed]) -> Table:
    columns = [
        "trial",
        "fresh seeds: mean ± std",
        "95% CI",
        "P(better than default)",
        "95% CI ",
        "search",
        "N",
    ]
    table = Table(columns)
    for item in confirmed:
        number = item.candidate.number
        table.rows.append(
            [
                f"{number} (default)" if number == DEFAULT_TRIAL else str(number),
                mean_and_std(item.mean, item.std),
                bounds(item.ci),
                "" if item.improvement is None else score(item.improvement),
                "" if item.improvement_ci is None else bounds(item.improvement_ci),
                score(item.candidate.phase1),
                str(len(item.scores)),
            ]
        )
    table.bold = {(0, 1)}
    return table


def _best_table(study: Study, options: TuneOptions) -> Table:
    """The best trials of the search."""
    trials = [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
    trials.sort(key=lambda trial: trial.value or 0.0, reverse=options.objective.direction == "maximize")
    names = list(dict.fromkeys(name for trial in trials[:_SHOWN_TRIALS] for name in _params(trial)))
    table = Table(["trial", "value", *names])
    for trial in trials[:_SHOWN_TRIALS]:
        params = _params(trial)
        cells = [_cell(params[name]) if name in params else "" for name in names]
        table.rows.append([str(trial.number), score(trial.value), *cells])
    return table


def _facts(study: Study, options: TuneOptions) -> list[str]:
    trials = study.get_trials(deepcopy=False)
    states = [_state(trial) for trial in trials]
    counts = ", ".join(f"{states.count(state)} {state.lower()}" for state in dict.fromkeys(states))
    seconds = sum(trial.duration.total_seconds() for trial in trials if trial.duration)
    objective = options.objective
    common = shlex.join(f"--{name}={value}" for name, value in options.params.items())
    return [
        f"{len(trials)} trials ({counts}), {duration(seconds)} of trials altogether",
        f"environments: {', '.join(objective.envs)}; a trial is the {objective.aggregate} of seeds "
        f"{', '.join(map(str, objective.seeds))}; {objective.direction} {objective.metric}",
        f"sampler {options.sampler} (seed {options.sampler_seed}), pruner {options.pruner}",
        f"same for all: {common or 'nothing'}",
    ]


_BIAS = (
    "The search's own value is beside it: the best of many noisy values is partly the luckiest, so it "
    "promises too much. P is the probability that a run beats one of the default configuration (trial 0)."
)


def _markdown(study: Study, options: TuneOptions, confirmed: Sequence[Confirmed]) -> str:
    lines = [f"# {options.study_name}", "", *(f"- {fact}" for fact in _facts(study, options)), ""]
    if confirmed:
        lines += ["## On fresh seeds", "", to_markdown(_candidate_table(confirmed)), "", _BIAS, ""]
    lines += ["## Best trials of the search", "", to_markdown(_best_table(study, options)), ""]
    shares = importances(study, options.space.names)
    if shares:
        table = Table(["setting", "importance"], [[name, f"{share:.2f}"] for name, share in shares.items()])
        lines += ["## Importance", "", to_markdown(table), ""]
    lines += ["## Train with the winner", "", "```bash", _winner_command(options), "```", ""]
    return "\n".join(lines)


def _html(study: Study, options: TuneOptions, confirmed: Sequence[Confirmed]) -> str:
    facts = "".join(f"<li>{html.escape(fact)}</li>" for fact in _facts(study, options))
    parts = [f"<h1>{html.escape(options.study_name)}</h1>", f'<ul class="facts">{facts}</ul>']
    if confirmed:
        parts += ["<h2>On fresh seeds</h2>", to_html(_candidate_table(confirmed))]
        parts.append(f'<p class="caption">{html.escape(_BIAS)}</p>')
    parts += _figures(study, options)
    parts += ["<h2>Best trials of the search</h2>", to_html(_best_table(study, options))]
    parts += ["<h2>Train with the winner</h2>", f"<pre>{html.escape(_winner_command(options))}</pre>"]
    return html_report.page(options.study_name, parts)


def _figures(study: Study, options: TuneOptions) -> list[str]:
    if importlib.util.find_spec("matplotlib") is None:
        return [
            '<p class="caption">Figures need matplotlib: pip install matplotlib, then --analyze_only.</p>'
        ]
    trials = study.get_trials(deepcopy=False)
    maximize = options.objective.direction == "maximize"
    parts = [
        html_report.figure(
            "history", "History", "Value of each trial in the search.", figures.history(trials, maximize)
        )
    ]
    shares = importances(study, options.space.names)
    if shares:
        caption = "How much a setting decides whether a trial is among the best (PED-ANOVA)."
        parts.append(html_report.figure("importance", "Importance", caption, figures.importance_bars(shares)))
    if options.space.parameters:
        caption = "One line per trial; the darker, the better, the best in orange."
        drawn = figures.parallel_coordinates(trials, options.space.parameters, maximize)
        parts.append(html_report.figure("parallel", "Settings of the trials", caption, drawn))
    return parts


def _winner_command(options: TuneOptions) -> str:
    several = len(options.objective.envs) > 1
    env = [f"--env={options.objective.envs[0]}"] if several else []
    return shlex.join([*shlex.split(options.command), *env, f"--cfg_file={winner_file(options)}"])


def _params(trial: FrozenTrial) -> Params:
    return dict(trial.user_attrs.get(CONFIGURATION) or {})


def _state(trial: FrozenTrial) -> str:
    return "PRUNED" if trial.user_attrs.get(PRUNED) else trial.state.name


def _blank(value: Any) -> Any:
    return "" if value is None else value


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
