"""Readers: raw station files of many makes as one kind of source."""

from .registry import GROUP as GROUP
from .registry import Reader as Reader
from .registry import detect as detect
from .registry import names as names
from .registry import reader as reader
from .source import Network as Network
from .source import ReadOptions as ReadOptions
from .source import Source as Source
from .source import Workspace as Workspace
