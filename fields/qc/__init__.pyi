from .control import check_quality as check_quality
from .flags import GROSS as GROSS
from .flags import MASKING as MASKING
from .flags import Flag as Flag
from .flags import flag_attributes as flag_attributes
from .seeding import QualityScore as QualityScore
from .seeding import quality_report as quality_report
from .tests import fails_range as fails_range
