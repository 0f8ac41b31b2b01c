"""Settings of the physics-guided lift; without torch, so that commands may read them before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass

from fields.errors import UsageError, is_finite_number, is_whole

__all__ = ["LONGEST_DAYS", "PINN", "PinnSettings"]

# Name of the method, beside those of `LIFT_METHODS`.
PINN = "pinn"
# A network of a fixed width holds so much weather, as in the paper.
LONGEST_DAYS = 14.0


@dataclass(frozen=True, slots=True)
class PinnSettings:
    """Settings of one network of the physics-guided lift.

    Parameters
    ----------
    coriolis : whether the Coriolis term is among the equations
    seed : of the first weights, and of the order in which observations and places are drawn
    steps : of training
    days : longest window that one network is fitted to, at most 14
    published_loss : differentiate the weights of the losses, as public code does
    """

    coriolis: bool = True
    seed: int = 0
    steps: int = 1500
    days: float = LONGEST_DAYS
    published_loss: bool = False

    def __post_init__(self) -> None:
        if not (is_whole(self.steps, 1) and is_whole(self.seed, 0)):
            raise UsageError(
                f"a network takes a whole number of steps from 1 and a seed from 0; got {self.steps!r}, {self.seed!r}",
                code="SPDE-D078", do="--steps 1500 --seed 0",
            )  # fmt: skip
        if not (is_finite_number(self.days) and 0.0 < self.days <= LONGEST_DAYS):
            raise UsageError(f"a network takes at most {LONGEST_DAYS:g} days, and more than none; got {self.days!r}",
                             code="SPDE-D078", do="PinnSettings(days=14)")  # fmt: skip
