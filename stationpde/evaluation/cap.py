"""Cap on the CPU time of a learned model in a comparison, for all alike; its search on validation is included.

`budget` counts the time in a file beside the run, plans as many steps as fit, and raises `BudgetSpent` where training
outlasts 1.25 times its part of the cap. `fitting` says what a kind of model does with it:

* ``ours`` and ``trained``: a fifth of the cap goes to the search for learning rate and switches, where there is one;
  what is left after search, timing and preparation is for training. Where it is spent the best epoch so far counts, and
  without one validation the cell fails with SPDE-B011.
* ``iterated`` (`stationpde.baselines.gbdt_nb`) is told how many seconds are left, and is not interrupted.
* A combination (`blend`) costs what its members cost, each of which has the whole cap.
* ``rule`` and ``closed_form`` are fitted at once, without a cap; their CPU time is counted as well.
"""

__all__ = ["CAP_SECONDS"]

# CPU seconds of each learned model, where no other cap is typed.
CAP_SECONDS = 900.0
