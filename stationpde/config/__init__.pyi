from .page import configuration_page as configuration_page
from .sections import DataSection as DataSection
from .sections import LossSection as LossSection
from .sections import TrainSection as TrainSection
from .tree import ABLATIONS as ABLATIONS
from .tree import RECIPES as RECIPES
from .tree import VARIANTS as VARIANTS
from .tree import Config as Config
