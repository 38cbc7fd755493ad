"""What goes on beside training in the main process: the population, the league, the evaluator.

The session's loop calls `step` between two reports. Invariant: none of them makes training wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sample_factory.algorithms.appo.league import League
from sample_factory.algorithms.appo.population import Population
from sample_factory.algorithms.appo.side_evaluation import SideEvaluation

if TYPE_CHECKING:
    from sample_factory.algorithms.appo.progress import Progress


@dataclass(frozen=True)
class Steering:
    """What looks at the policies, and changes them and their opponents, while training goes on."""

    population: Population | None
    league: League | None
    evaluation: SideEvaluation | None

    def start(self) -> None:
        """Starts the evaluator's process."""
        if self.evaluation is not None:
            self.evaluation.start()

    def step(self, progress: Progress, objective: str) -> None:
        """Lets all of them do what is due."""
        if self.population is not None:
            self.population.step(progress.objectives(objective))
            progress.write_population(self.population)
        if self.league is not None:
            self.league.step()
        if self.evaluation is not None:
            for report in self.evaluation.poll():
                progress.take(report)

    def stop(self, timeout: float) -> None:
        """Ends the evaluator's process and saves the ratings."""
        if self.evaluation is not None:
            self.evaluation.stop(timeout)
        if self.league is not None:
            self.league.save()
