"""Writes ``observations.npz``: a small made-up network, in the units that people exchange."""

import numpy as np

from stationpde import fields

NAMES = ("u", "v", "p", "t", "rh")

network = fields.make_network(stations=12, days=30, seed=1)
columns = {name: network[name].values for name in NAMES}
columns["p"], columns["t"], columns["rh"] = columns["p"] / 100.0, columns["t"] - 273.15, columns["rh"] * 100.0
np.savez(
    "observations.npz",
    obs=np.stack([columns[name] for name in NAMES], axis=-1).astype(np.float32),
    variables=np.array(NAMES),
    time=network["time"].values.astype("datetime64[s]"),
    station_id=network["station"].values.astype(str),
    lat=network["lat"].values,
    lon=network["lon"].values,
    alt_m=network["alt"].values,
)
