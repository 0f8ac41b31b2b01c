from .compose import substitutes_of as substitutes_of
from .pipeline import ACCEPTABLE as ACCEPTABLE
from .pipeline import IngestOptions as IngestOptions
from .pipeline import IngestResult as IngestResult
from .pipeline import ingest as ingest
from .pipeline import ingest_files as ingest_files
from .selection import parse_bbox as parse_bbox
