from .control import check_quality as check_quality
from .flags import GROSS as GROSS
from .flags import MASKING as MASKING
from .flags import Flag as Flag
from .flags import flag_attributes as flag_attributes
from .planted_errors import QualityScore as QualityScore
from .planted_errors import quality_report as quality_report
from .quality_tests import fails_range as fails_range
