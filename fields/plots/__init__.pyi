from .field import draw_field as draw_field
from .network import draw_network as draw_network
from .style import degrees_label as degrees_label
from .style import relief_light as relief_light
