"""Training that survives: deterministic steps, checked checkpoints, exact resumption, one process or many."""

from stationpde.training.learner import Learner as Learner
from stationpde.training.learner import LocalReducer as LocalReducer
from stationpde.training.learner import Reducer as Reducer
