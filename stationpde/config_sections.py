"""The sections of a configuration: every choice that the paper leaves open is a switch here, with its default.

Defaults are the ``default`` variant of the model; ``presets/variant_paper.toml`` holds what the printed equations say
instead. Sections are frozen and know no unknown key.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = [
    "DataSection",
    "GridSection",
    "LiftSection",
    "LossSection",
    "ModelSection",
    "PDESection",
    "Section",
    "TrainSection",
    "seconds_of",
]

Variable = Literal["u", "v", "p", "t", "rh"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
Count = Annotated[int, Field(ge=1)]

_SPAN = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def seconds_of(text: str) -> int:
    """Seconds in a span such as ``"3h"``, ``"30min"`` or ``"1h30min"``."""
    parts = re.findall(r"(\d+)\s*(s|min|h|d)", text)
    if not parts or re.sub(r"(\d+)\s*(s|min|h|d)|\s", "", text):
        raise ValueError(f"'{text}' is no span of time; write it as 30min, 3h or 1d")
    return sum(int(number) * _SPAN[unit] for number, unit in parts)


class Section(BaseModel):
    """A frozen part of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class DataSection(Section):
    """Which observations make a window, and how time is divided."""

    step: str = "3h"
    """Cadence of the model's time axis; observations at other times are not used."""
    history: Count = 16
    """Steps that are given."""
    horizon: Count = 8
    """Steps that are forecast."""
    split: tuple[Positive, Positive, Positive] = (0.6, 0.1, 0.3)
    """Shares of the record for training, validation and test, one after the other."""
    train_stride: Count = 1
    """Steps between training windows; the phase rotates from epoch to epoch."""
    max_missing: Share = 0.9
    """Stations that miss more than this share of the training period are left out."""
    scored: tuple[Variable, ...] = ("u", "v", "p", "t", "rh")
    """Variables that enter loss and scores."""
    missing: dict[Variable, Literal["standard-atmosphere"]] = {}
    """Stand-in for a variable that a network does not observe; it is never scored."""

    @field_validator("step")
    @classmethod
    def _is_span(cls, text: str) -> str:
        if seconds_of(text) <= 0 or 86400 % seconds_of(text):
            raise ValueError(f"a step of '{text}' does not divide a day; take 1h, 3h, 6h …")
        return text

    @property
    def step_seconds(self) -> int:
        """Cadence in seconds."""
        return seconds_of(self.step)

    @model_validator(mode="after")
    def _fits(self) -> DataSection:
        if abs(sum(self.split) - 1.0) > 1e-9:
            raise ValueError(f"split must add up to 1, not {sum(self.split):g}")
        both = set(self.missing) & set(self.scored)
        if both:
            raise ValueError(f"{', '.join(sorted(both))} has a stand-in and cannot be scored; take it out of scored")
        return self


class GridSection(Section):
    """The grid on which the field lives."""

    height: Annotated[int, Field(ge=4)] = 32
    """Rows, at most."""
    width: Annotated[int, Field(ge=8)] | Literal["metres", "degrees"] = "metres"
    """Columns: a number, or as many as make cells square in metres or degrees."""
    margin: Annotated[float, Field(ge=0.0)] = 0.05
    """Part of the network's extent that is added on every side."""
    least_cell_km: Annotated[float, Field(ge=0.0)] = 8.0
    """A small network gets fewer rows rather than smaller cells, through which a storm's wind would need more than 16
    sub-steps of half an hour; stations seldom tell more."""
    least_spacing: Annotated[float, Field(ge=0.0)] = 0.6
    """Fewer rows rather than cells smaller than this share of the mean distance between stations."""
    dem: str | None = None
    """File with an elevation model; without one the cells' altitude is lifted from the stations, as in the paper."""


class LiftSection(Section):
    """How stations become a field."""

    method: Literal["idw", "terrain_idw", "detrended"] = "idw"
    k: Count = 10
    """Neighbours."""
    power: Positive = 1.0
    epsilon_m: Positive = 1.0
    w_alt: str = "5 km/m"
    """Weight of altitude in the distance of ``terrain_idw``, a length over a length."""


class ModelSection(Section):
    """What the learned parts look like, and which of them are there."""

    state: Literal["raw", "anomaly"] = "anomaly"
    """Evolve the state itself, or its departure from the station × hour climatology of the training split."""
    annual_harmonics: Annotated[int, Field(ge=0, le=2)] = 0
    """Harmonics of the year in the climatology; a record of little more than a year supports none."""
    pressure: Literal["surface", "anomaly"] = "surface"
    """Under the raw state: pressure as observed, or its departure from the standard atmosphere at local altitude."""
    saturation: Literal["ambaum", "bolton"] = "ambaum"
    """Formula of the saturation vapour pressure in Ψ."""
    normalisation: Literal["channel", "station_wind"] = "station_wind"
    """Scales of the networks' edges and of the loss: one per channel, or the wind's per station."""
    hidden: Count = 16
    """Width of gates, router, closure and data branch."""
    encoder: Literal["plain", "dilated"] = "dilated"
    encoder_hidden: Count = 32
    dilations: tuple[Count, ...] = (1, 2, 4)
    """Of the dilated encoder; its reach is the sum of the dilations, in cells."""
    gate_bias: float = -2.0
    router_bias: float = 0.0
    candidate_scale: Positive = 0.1
    """τ_c at the start."""
    motion_limit: Positive = 4.0
    """Largest displacement of the data branch in one forecast step, cells."""
    readout: Literal["bilinear", "anchored"] = "anchored"
    """Read the field alone, or add the station's own departure from it with a learned weight for channel and lead."""
    head_hidden: Count = 128
    head_sees_field: bool = True
    """Encoder features, sampled at the station, are inputs of the station head."""
    head_sees_surroundings: bool = True
    """Differences of the lifted field at 150, 350 and 700 km, and their changes, are inputs of the station head."""
    guide: Literal["none", "linear"] = "linear"
    """First guesses of departures, fitted on the training split before the first step."""
    guide_groups: tuple[Literal["hour", "regime", "cloud", "place"], ...] = ("hour", "regime", "cloud", "place")
    """Products of predictors that the guide is fitted on, beside history and surroundings."""
    guide_reference: Literal["auto", "climatology", "last_day"] = "auto"
    """What guesses of pressure, temperature and humidity depart from: the climatology, or the level of the last day.
    ``auto`` takes the last day where training is shorter than a year and has not met every season."""
    guide_networks: Annotated[int, Field(ge=0)] = 3
    """Perceptrons whose mean is the guide's second guess, beside the linear one; 0 for none."""
    guide_hidden: Count = 384
    """Width of their two layers."""
    guide_epochs: Count = 6
    """Passes over the training rows that they learn from."""
    guide_share: Share = 0.8
    """Share of the guide against the field at the start."""
    guide_calibration: Literal["none", "validation"] = "validation"
    """Keep that share, or fit one for each guess, lead and variable on two fifths of validation after each epoch."""
    station_embedding: Annotated[int, Field(ge=0)] = 8
    """Numbers learned for each station; zero for one that was not trained on."""
    solar: bool = True
    """Solar zenith angle among the conditions."""
    slope: bool = True
    """Slope of the terrain among the conditions."""
    pde_branch: bool = True
    data_branch: bool = True
    station_head: bool = True
    closure: bool = True
    closure_wind: bool = True
    """Closure for u and v as well, which stands in for the pressure-gradient force."""
    closure_every: Literal["substep", "interval"] = "interval"
    """Evaluate the closure at every PDE sub-step as printed, or once in a forecast interval."""

    @model_validator(mode="after")
    def _has_a_branch(self) -> ModelSection:
        if not (self.pde_branch or self.data_branch):
            raise ValueError("one of pde_branch and data_branch is needed to carry the field forward")
        return self


class PDESection(Section):
    """The equations and how they are stepped."""

    dt: Positive = 1800.0
    """Seconds of a sub-step; a forecast interval is K of them."""
    without: tuple[str, ...] = ()
    """Operators taken out of the equations."""
    terms: tuple[Literal["surroundings", "memory", "relaxation", "radiation"], ...] = ()
    """Terms that extend the printed equations, each starting at nothing; they act on departures (``model.state``) and
    are held over an interval (``model.closure_every``). None by default: they have not earned their time yet."""
    rule: Literal["none", "range", "limiter", "weathergft"] = "none"
    """How an Euler increment is scaled."""
    rho: Positive | None = None
    """Share of a field's range that one scaled step may cover; by default the rule's own."""
    advection: Literal[
        "advection_upwind1", "advection_upwind3", "advection_central2", "advection_central4", "semi_lagrangian"
    ] = "advection_upwind1"
    exact_flows: bool = False
    """Closed-form updates of rotation, friction and condensation, by splitting."""
    max_wind: Positive = 40.0
    """m/s; fixes the number of stable parts of a sub-step, to which the advecting wind is limited."""
    gamma: Literal["one", "split"] = "split"
    """One learned update factor for each channel, or one for the equations and one for their closure."""
    diffusion_number: Positive = 0.01
    """κΔt/Δx² at the start."""
    friction: Positive = 2e-5
    """r_m at the start, 1/s."""
    condensation: Positive = 1.0 / 3600.0
    """λ_c at the start, 1/s."""
    latent_heating: bool = False
    """Condensation warms θ."""
    pressure_gradient: bool = False
    """Add a learned share of −(1/ρ)∇p; needs pressure without its terrain part."""
    backend: Literal["auto", "torch", "fused", "inductor"] = "auto"


class LossSection(Section):
    """What is minimised."""

    kind: Literal["l1", "mse", "huber"] = "mse"
    observed: Annotated[float, Field(ge=0.0)] = 0.5
    """λ_obs, weight of the loss in observed variables."""
    state_weights: dict[Literal["u", "v", "p", "theta", "q"], Annotated[float, Field(ge=0.0)]] = {}
    """w_c; 1 where not given."""
    observed_weights: dict[Variable, Annotated[float, Field(ge=0.0)]] = {}
    """v_j; 1 where not given."""


class TrainSection(Section):
    """How the parameters are found."""

    epochs: Count = 2
    """Passes of the field over the training windows; with a guide more of them gain next to nothing."""
    max_steps: Count | None = None
    batch: Count = 8
    lr: Positive = 2e-3
    """Learning rate, the peak under one-cycle."""
    schedule: Literal["constant", "one_cycle"] = "one_cycle"
    weight_decay: Annotated[float, Field(ge=0.0)] = 1e-4
    clip: Positive = 1.0
    """Largest norm of the gradient."""
    average: Share = 0.0
    """Decay of the exponential weight average that is validated and used; 0 uses the weights as they are."""
    station_dropout: Share = 0.1
    """Share of stations that a training window does not show, so that unknown stations are met before they come."""
    seed: Annotated[int, Field(ge=0)] = 0
    checkpoint_every: Count = 200
    """Steps."""
    validate_windows: Count | None = None
    """At most so many validation windows, evenly spaced; all by default."""
    patience: Count | None = 3
    """Epochs without a better validation score after which training ends."""
    workers: Annotated[int, Field(ge=0)] = 0
    """Processes that gather batches; 0 gathers in the training process."""
    compile: bool = False
    """torch.compile of the model."""
    recompute: bool = False
    """Activation checkpointing: less memory for more time; benchmarks.md has the figures."""
    threads: Annotated[int, Field(ge=0)] = 0
    """Threads of torch; 0 leaves torch's own choice."""
    collective_timeout: str = "5min"
    """How long ranks wait for each other."""
