from . import network as network
from .network import make_network as make_network
from .network import write_network as write_network
from .relief import make_relief as make_relief
