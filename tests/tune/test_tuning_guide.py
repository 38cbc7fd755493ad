"""What the guide shows is understood."""

from __future__ import annotations

import shlex
from pathlib import Path

from sample_factory.runner.target_flags import target_flags
from sample_factory.runner.yaml_loading import parse_yaml
from sample_factory.tune.flags import parse_command_line
from sample_factory.tune.space import parse_space

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "tuning.md").read_text()
TRAINER = target_flags("python -m sample_factory.algorithms.appo.train_appo", "APPO", "gym_CartPole-v1")


def test_the_first_command_is_a_study() -> None:
    command = GUIDE.split("```bash\n")[1].split("sf train")[0].replace("\\\n", "")
    options = parse_command_line(shlex.split(command)[3:])
    assert (options.num_samples, options.study_name) == (50, "tune_APPO_gym_CartPole-v1")
    assert options.params == {"train_for_env_steps": 200_000, "device": "cpu", "use_rnn": False}


def test_the_search_space_is_one() -> None:
    content = parse_yaml(GUIDE.split("```yaml\n")[1].split("```")[0], "guide")
    assert parse_space(content, TRAINER).names == list(content)


def test_the_file_with_everything_is_a_study(tmp_path: Path) -> None:
    path = tmp_path / "tune.yaml"
    path.write_text(GUIDE.split("```yaml\n")[2].split("```")[0])
    options = parse_command_line([f"--config={path}"])
    assert (options.num_samples, options.objective.envs, options.runner.num_gpus) == (40, ("doom_basic",), 2)
