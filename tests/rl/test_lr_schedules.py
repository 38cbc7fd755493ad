"""Learning-rate schedules with literal numbers."""

import math

import pytest

from sample_factory.rl.lr_schedules import KlBounds, LrSchedule, make_lr_schedule

BOUNDS = KlBounds(threshold=0.01, min_lr=1e-5, max_lr=1e-2)
NAMES = ["constant", "kl_adaptive_minibatch", "kl_adaptive_epoch", "linear_decay"]


def schedule(name: str, learning_rate: float = 3e-4, total_updates: int = 10) -> LrSchedule:
    return make_lr_schedule(name, learning_rate=learning_rate, kl_bounds=BOUNDS, total_updates=total_updates)


@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_starts_at_the_learning_rate(name):
    assert schedule(name).current_lr() == 3e-4


def test_constant_never_changes():
    constant = schedule("constant")
    constant.after_minibatch(kl=5.0)
    constant.after_epoch(mean_kl=5.0)
    assert constant.current_lr() == 3e-4


@pytest.mark.parametrize(
    ("kl", "expected"),
    [
        (0.021, 2e-4),  # above twice the threshold: / 1.5
        (0.020, 3e-4),
        (0.010, 3e-4),
        (0.005, 3e-4),
        (0.004, 4.5e-4),  # below half the threshold: * 1.5
        (math.nan, 3e-4),
    ],
)
def test_kl_decides_the_direction(kl, expected):
    adaptive = schedule("kl_adaptive_minibatch")
    adaptive.after_minibatch(kl=kl)
    assert adaptive.current_lr() == pytest.approx(expected)


@pytest.mark.parametrize(("kl", "limit"), [(1.0, 1e-5), (0.0, 1e-2)])
def test_adaptive_rates_stay_within_bounds(kl, limit):
    adaptive = schedule("kl_adaptive_minibatch")
    for _ in range(50):
        adaptive.after_minibatch(kl=kl)
    assert adaptive.current_lr() == limit


def test_adapting_per_minibatch_ignores_epochs():
    adaptive = schedule("kl_adaptive_minibatch")
    adaptive.after_epoch(mean_kl=1.0)
    assert adaptive.current_lr() == 3e-4


def test_adapting_per_epoch_ignores_minibatches():
    adaptive = schedule("kl_adaptive_epoch")
    adaptive.after_minibatch(kl=1.0)
    assert adaptive.current_lr() == 3e-4
    adaptive.after_epoch(mean_kl=1.0)
    assert adaptive.current_lr() == pytest.approx(2e-4)


def test_linear_decay_reaches_zero_and_stays_there():
    decay = schedule("linear_decay", learning_rate=1.0, total_updates=4)
    rates = []
    for _ in range(6):
        rates.append(decay.current_lr())
        decay.after_minibatch(kl=0.0)
        decay.after_epoch(mean_kl=0.0)
    assert rates == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]


@pytest.mark.parametrize("name", NAMES)
def test_progress_survives_a_restart(name):
    before = schedule(name)
    for _ in range(3):
        before.after_minibatch(kl=1.0)
        before.after_epoch(mean_kl=1.0)
    after = schedule(name)
    after.load_state_dict(before.state_dict())
    assert after.current_lr() == before.current_lr()


@pytest.mark.parametrize("name", ["constant", "linear_decay"])
def test_a_learning_rate_typed_when_resuming_counts(name):
    resumed = schedule(name, learning_rate=1e-3)
    resumed.load_state_dict(schedule(name).state_dict())
    assert resumed.current_lr() == 1e-3


@pytest.mark.parametrize("saved", NAMES)
@pytest.mark.parametrize("resumed", NAMES)
def test_the_schedule_may_change_between_sessions(saved, resumed):
    fresh = schedule(resumed)
    fresh.load_state_dict(schedule(saved).state_dict())
    assert fresh.current_lr() == 3e-4


def test_population_based_training_may_change_the_rate_on_the_way():
    decay = schedule("linear_decay", learning_rate=1.0, total_updates=4)
    decay.after_minibatch(kl=0.0)
    decay.set_learning_rate(2.0)
    assert decay.current_lr() == 1.5


def test_unknown_schedules_are_refused():
    with pytest.raises(ValueError, match="--lr_schedule=cosine is not known: use constant"):
        schedule("cosine")
