from .leakage import require_blind as require_blind
from .leakage import without_test as without_test
from .registry import Baseline as Baseline
from .registry import Predictor as Predictor
from .registry import baseline as baseline
from .registry import baselines as baselines
from .registry import names as names
