"""NetHack, Procgen and dm_control: the contract in Python environments of their own."""

import importlib.util

import pytest

from sample_factory.envs.make import make_env
from sample_factory.envs.registry import MissingPackageError
from tests.envs.contract_check import family_cfg

pytestmark = pytest.mark.timeout(600)

NETHACK = ("nle==1.3.0", "psutil")
PROCGEN = ("procgen-mirror==0.10.7", "gymnasium", "psutil"), ("--upgrade", "numpy>=2")
DM_CONTROL = ("dm-control==1.0.50", "mujoco==3.17.0", "packaging", "gymnasium", "psutil")

EVERY_NAME = """
from tests.envs.contract_check import check_env
{names}
assert len(names) == {count}, names
for name in names:
    assert check_env(name, steps=200).frames == 200, name
"""
PICTURE = """
import os
os.environ.pop("DISPLAY", None)
from sample_factory.envs.make import make_env
from tests.envs.contract_check import family_cfg
env = make_env({name!r}, family_cfg({name!r}), None, "rgb_array")
env.reset(seed=0)
picture = env.render()
assert picture.ndim == 3 and picture.shape[2] == 3 and picture.std() > 0, picture.shape
env.close()
"""
CONTRACT = """
import sys
from tests.envs.contract_check import check_env
for name, shapes in {checks!r}.items():
    report = check_env(name, steps=150, reproducible=True)
    seen = {{key: value.shape for key, value in report.observations[0].items()}}
    assert seen == shapes, (name, seen)
assert "torch" not in sys.modules, "environments must not need torch"
"""


@pytest.mark.slow
@pytest.mark.isolated
def test_nethack_keeps_the_contract_and_its_seed(isolated_python):
    seen = {"obs": (2, 21, 79), "blstats": (27,), "message": (256,)}
    python = isolated_python(NETHACK)
    python.run(CONTRACT.format(checks={"nethack_score": seen, "nethack_staircase": seen}))


@pytest.mark.slow
@pytest.mark.isolated
def test_every_nethack_task_keeps_the_contract_for_200_steps(isolated_python):
    names = "from sample_factory.envs.nethack.family import TASKS; names = [f'nethack_{t}' for t in TASKS]"
    isolated_python(NETHACK).run(EVERY_NAME.format(names=names, count=8))


@pytest.mark.long
@pytest.mark.isolated
def test_every_procgen_game_keeps_the_contract_for_200_steps(isolated_python):
    names = "from sample_factory.envs.procgen.family import GAMES; names = [f'procgen_{g}' for g in GAMES]"
    isolated_python(*PROCGEN).run(EVERY_NAME.format(names=names, count=16))


@pytest.mark.long
@pytest.mark.isolated
def test_a_task_of_every_dm_control_domain_keeps_the_contract_for_200_steps(isolated_python):
    names = (
        "from sample_factory.envs.dmcontrol.env import suite_tasks; "
        "first = dict(reversed(list(suite_tasks()))); "
        "names = [f'dmcontrol_{domain}_{task}' for domain, task in first.items()]"
    )
    isolated_python(DM_CONTROL).run(EVERY_NAME.format(names=names, count=19))


@pytest.mark.slow
@pytest.mark.isolated
def test_pictures_are_drawn_without_a_display(isolated_python):
    isolated_python(*PROCGEN).run(PICTURE.format(name="procgen_coinrun"))
    isolated_python(DM_CONTROL).run(PICTURE.format(name="dmcontrol_cheetah_run"))
    isolated_python(NETHACK).run(PICTURE.format(name="nethack_score"))


@pytest.mark.slow
@pytest.mark.isolated
def test_procgen_keeps_the_contract_and_its_seed(isolated_python):
    python = isolated_python(*PROCGEN)
    seen = {"obs": (3, 64, 64)}
    python.run(CONTRACT.format(checks={"procgen_coinrun": seen, "procgen_bigfish": seen}))


@pytest.mark.slow
@pytest.mark.isolated
def test_procgen_copies_step_together_and_go_on_after_an_end(isolated_python):
    python = isolated_python(*PROCGEN)
    python.run("""
import numpy as np
from sample_factory.envs.make import make_vector_env
from tests.envs.contract_check import family_cfg
env = make_vector_env("procgen_bigfish", family_cfg("procgen_bigfish"), 4)
first = env.reset(seed=1)["obs"].copy()
assert first.shape == (4, 3, 64, 64)
np.testing.assert_array_equal(first, env.reset(seed=1)["obs"])
rng, ends = np.random.default_rng(0), 0
for _ in range(400):
    step = env.step(rng.integers(15, size=4))
    assert not step.resets.any() and not step.truncated.any()
    assert [i for i, _ in step.infos] == np.flatnonzero(step.terminated).tolist()
    ends += int(step.terminated.sum())
assert ends > 0
""")


@pytest.mark.slow
@pytest.mark.isolated
def test_dm_control_keeps_the_contract_and_its_seed(isolated_python):
    python = isolated_python(DM_CONTROL)
    checks = {"dmcontrol_cheetah_run": {"obs": (17,)}, "dmcontrol_ball_in_cup_catch": {"obs": (8,)}}
    python.run(CONTRACT.format(checks=checks))


@pytest.mark.slow
@pytest.mark.isolated
def test_dm_control_time_outs_are_truncations(isolated_python):
    python = isolated_python(DM_CONTROL)
    python.run("""
import numpy as np
from sample_factory.envs.make import make_env
from tests.envs.contract_check import family_cfg
env = make_env("dmcontrol_cheetah_run", family_cfg("dmcontrol_cheetah_run"), None)
env.reset(seed=0)
ends = [env.step(np.zeros(6, np.float32))[2:4] for _ in range(1000)]
assert ends == [(False, False)] * 999 + [(False, True)]
""")


@pytest.mark.parametrize(
    ("name", "module", "command"),
    [
        ("nethack_score", "nle", "pip install nle"),
        ("procgen_coinrun", "procgen", "pip install procgen-mirror"),
        ("dmcontrol_cheetah_run", "dm_control", "pip install dm-control mujoco==3.17.0"),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(name, module, command):
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"{module} is installed")
    with pytest.raises(MissingPackageError, match=command):
        make_env(name, family_cfg(name), None)
