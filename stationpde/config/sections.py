"""Sections of the configuration: every key with its type, its default and what it decides.

Defaults are those of the ``default`` variant of the model; ``presets/variant_paper.toml`` holds what the printed
equations say instead. Sections are frozen and refuse unknown keys. `stationpde.config.removed` lists the keys that
became constants. The docstring of a key is its entry in ``docs/configuration.md``.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, Strict, field_validator, model_validator

from fields.errors import UsageError
from fields.stand_ins import STAND_INS
from fields.times import DAY, parse_span

__all__ = [
    "INPUTS",
    "DataSection",
    "GridSection",
    "LiftSection",
    "LossSection",
    "ModelSection",
    "PDESection",
    "Section",
    "TrainSection",
]

Variable = Literal["u", "v", "p", "t", "rh"]
Extra = Literal["psl", "td", "ff", "precip", "gust", "radiation", "cloud", "visibility", "snow", "sunshine"]
# Strict: true is no 1, 1.0 no count of things and "3" no number; a whole number is a float.
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Whole = Annotated[int, Strict()]
Switch = Annotated[bool, Strict()]
Share = Annotated[Number, Field(ge=0.0, le=1.0)]
Positive = Annotated[Number, Field(gt=0.0)]
Count = Annotated[Whole, Field(ge=1, le=10**9)]
# Limits of what makes tensors: far beyond any use, and small enough that a slip is refused before memory is asked for.
Steps = Annotated[Whole, Field(ge=1, le=4096)]
Width = Annotated[Whole, Field(ge=1, le=16384)]


class Section(BaseModel):
    """Base of all sections: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class DataSection(Section):
    """Observations that make a window, and the division of the record."""

    step: str = "3h"
    """Cadence of the model's time axis; observations at other times are not used."""
    history: Steps = 16
    """Steps of observations that a forecast starts from."""
    horizon: Steps = 8
    """Steps that are forecast."""
    split: tuple[Positive, Positive, Positive] = (0.6, 0.1, 0.3)
    """Shares of the record for training, validation and test, in this order of time."""
    train_stride: Count = 1
    """Steps between training windows; the phase rotates from epoch to epoch."""
    max_missing: Share = 0.9
    """Stations that miss more than this share of the training period are left out."""
    quality: Literal["full", "gross"] = "full"
    """Quality flags that count: all of them (``full``), or only those of values that no sensor can have measured
    (``gross``); flagged values are treated as missing."""
    scored: tuple[Variable, ...] = ("u", "v", "p", "t", "rh")
    """Variables that enter loss and scores."""
    missing: dict[Variable, Literal["standard-atmosphere", "calm", "dry"]] = {}
    """Substitute for a variable that a network does not observe; it is never scored, and not forecast. Training writes
    it where a record lacks one: ``calm`` for wind, ``standard-atmosphere`` for pressure and temperature, ``dry`` for
    humidity."""

    extra: tuple[Extra, ...] = ()
    """Variables beside the state that are forecast at stations: ``gust``, ``precip``, ``radiation``, ``cloud``,
    ``visibility``, ``snow``, ``sunshine``, ``ff`` of a network without directions, ``psl``, ``td``. They do not enter
    the equations."""

    @field_validator("step")
    @classmethod
    def _is_span(cls, text: str) -> str:
        try:
            seconds = parse_span(text)
        except UsageError as problem:  # pydantic collects ValueErrors
            raise ValueError(str(problem)) from None
        if seconds <= 0 or DAY % seconds:
            raise ValueError(f"a step of '{text}' does not divide a day; take 1h, 3h, 6h …")
        return text

    @property
    def step_seconds(self) -> int:
        """Return the cadence in seconds."""
        return parse_span(self.step)

    @model_validator(mode="after")
    def _fits(self) -> DataSection:
        if abs(sum(self.split) - 1.0) > 1e-9:
            raise ValueError(f"split must add up to 1, not {sum(self.split):g}")
        if len(set(self.scored)) != len(self.scored) or not self.scored:
            raise ValueError(f"scored names each variable once and at least one, not {list(self.scored)}")
        if len(set(self.extra)) != len(self.extra):
            raise ValueError(f"extra names each variable once, not {list(self.extra)}")
        for name, what in self.missing.items():
            if STAND_INS[name] != what:
                raise ValueError(f"missing: '{what}' is no substitute for {name}, which has '{STAND_INS[name]}'")
        if ("u" in self.missing) != ("v" in self.missing):
            raise ValueError("missing names both u and v or neither: one component is no wind")
        if "t" in self.missing and "rh" not in self.missing:
            raise ValueError("missing names t, and so rh: humidity without temperature says nothing of vapour")
        both = set(self.missing) & set(self.scored)
        if both:
            raise ValueError(f"{', '.join(sorted(both))} has a substitute and cannot be scored; take it out of scored")
        return self


class GridSection(Section):
    """Grid of the evolved field."""

    height: Annotated[Whole, Field(ge=4, le=4096)] = 32
    """Rows at most; a small or sparse network gets fewer (``grid.least_spacing``, and cells of at least 8 km)."""
    width: Annotated[Whole, Field(ge=8, le=8192)] | Literal["metres", "degrees"] = "metres"
    """Columns: a number, or as many as make cells square in metres or degrees."""
    least_spacing: Annotated[Number, Field(ge=0.0)] = 0.6
    """Fewer rows rather than cells smaller than this share of the mean distance between stations."""
    dem: str | None = None
    """File with an elevation model; without one the cells' altitude is lifted from the stations, as in the paper."""


class LiftSection(Section):
    """Interpolation of station values to the grid."""

    method: Literal["idw", "terrain_idw", "detrended"] = "idw"
    """Inverse distance in the plane, inverse distance with the altitude (the paper's), or inverse distance of what a
    plane and the hydrostatic law leave over."""
    k: Width = 10
    """Neighbours of a cell."""
    w_alt: str = "5 km/m"
    """Weight of altitude in the distance of ``terrain_idw``, a length over a length."""

    @field_validator("w_alt")
    @classmethod
    def _is_weight(cls, text: str) -> str:
        from fields.lift import altitude_weight

        try:
            altitude_weight(text)
        except UsageError as problem:
            raise ValueError(str(problem)) from None
        return text


# What networks and readout see beyond the printed model, in the order in which a configuration lists it.
Input = Literal["sun", "slope", "encoder", "surroundings", "station", "departure"]
INPUTS: tuple[Input, ...] = get_args(Input)


class ModelSection(Section):
    """Learned parts: which there are, what they see, and their widths."""

    state: Literal["raw", "anomaly"] = "anomaly"
    """Evolve the state itself, scaled by channel, or its departure from the station × hour climatology of the training
    split, with the wind scaled by station."""
    annual_harmonics: Annotated[Whole, Field(ge=0, le=2)] = 0
    """Harmonics of the year in the climatology; a record of little more than a year supports none."""
    inputs: tuple[Input, ...] = INPUTS
    """Inputs beyond those of the printed model. Conditions: ``sun`` (zenith angle), ``slope`` of the terrain. Station
    head: ``encoder`` (features at the station), ``surroundings`` (differences of the lifted field at 150, 350 and 700
    km and their changes), ``station`` (eight numbers learned for each, zero for a new one). Readout: ``departure``
    (the station's departure from the field, with a learned weight for each channel and lead)."""
    hidden: Width = 16
    """Width of gates, router, closure and data branch."""
    encoder: Literal["plain", "dilated"] = "dilated"
    """Two convolutions as printed, or one for each of ``model.dilations``."""
    encoder_hidden: Width = 32
    """Width of the encoder."""
    dilations: Annotated[tuple[Steps, ...], Field(min_length=1, max_length=64)] = (1, 2, 4)
    """Dilations of the dilated encoder; its reach is their sum, in cells, and should be 500 km."""
    head_hidden: Width = 128
    """Width of the station head's two layers."""
    guide: Literal["none", "linear"] = "linear"
    """First guesses of departures at the stations, fitted on the training split before the first step."""
    guide_groups: tuple[Literal["hour", "regime", "cloud", "place"], ...] = ("hour", "regime", "cloud", "place")
    """Products of predictors that the guide is fitted on, beside history and surroundings."""
    guide_reference: Literal["auto", "climatology", "last_day"] = "auto"
    """Level from which guesses of pressure, temperature and humidity depart: the climatology, or the mean of the last
    day. ``auto`` takes the last day where training is shorter than a year and does not cover every season."""
    guide_networks: Annotated[Whole, Field(ge=0, le=1000)] = 3
    """Perceptrons whose mean is the guide's second guess, beside the linear one; 0 for none."""
    guide_hidden: Width = 384
    """Width of the perceptrons' two layers."""
    guide_epochs: Count = 6
    """Passes of the perceptrons over the training rows."""
    guide_local: Literal["single", "blocks"] = "blocks"
    """Weights of each station in the linear guess. ``single``: always, in single precision. ``blocks``: in half
    precision, and none where on blocks of the training period that are left out they gain next to nothing at a sample
    of the stations."""
    surroundings: Literal["fixed", "network"] = "fixed"
    """Distances at which surroundings are seen: 150, 350 and 700 km, or those of `ring_distances`, which follow
    spacing and extent of the network and the step of the forecast."""
    guide_rows: Literal["thinned", "all"] = "all"
    """Rows that the guide is fitted on. ``thinned``: at most 3,600 windows, and of a target those rows in which every
    lead was observed. ``all``: every window as long as they have fewer than a million rows, a gap between two observed
    leads bridged."""
    guide_season: Literal["none", "auto"] = "auto"
    """Season in the guide: ``auto`` adds the first harmonic of the year, alone and times the day, to the predictors
    where training covers a year and three quarters; a shorter record holds no season twice."""
    simple_members: Switch = True
    """Mix persistence, the same hour yesterday and the climatology into the forecast, beside guesses and field."""
    shares: Literal["half_way", "by_days"] = "by_days"
    """How shares of guesses and field are estimated. ``half_way``: those of a lead are drawn half-way to those of its
    variable. ``by_days``: to those of its variable, of all variables, and to a prior, the more the fewer days of
    validation there are."""
    pde_branch: Switch = True
    """Evolve the field by the equations; without them the data branch alone does."""
    data_branch: Switch = True
    """Evolve the field by the learned candidate, motion and residual as well; a router mixes the two branches."""
    station_head: Switch = True
    """Correct the readout at each station by a perceptron."""
    closure: Switch = True
    """Add a learned source to the equations for what they do not resolve."""
    closure_form: Literal["printed", "held"] = "held"
    """How that source enters. ``printed``: for pressure, temperature and humidity, evaluated at every sub-step, under
    the update factor γ of the equations. ``held``: for the wind as well, where it represents the pressure-gradient
    force, evaluated once in a forecast interval, with an update factor of its own."""

    @field_validator("inputs")
    @classmethod
    def _in_order(cls, inputs: tuple[Input, ...]) -> tuple[Input, ...]:
        return tuple(name for name in INPUTS if name in inputs)

    @model_validator(mode="after")
    def _has_a_branch(self) -> ModelSection:
        if not (self.pde_branch or self.data_branch) and self.guide == "none":
            raise ValueError("one of pde_branch and data_branch is needed to carry the field forward where no guide is")
        return self

    @property
    def evolves(self) -> bool:
        """Whether a branch carries the field forward; without one only the guide forecasts."""
        return self.pde_branch or self.data_branch


class PDESection(Section):
    """Equations, and their steps in time."""

    dt: Positive = 1800.0
    """Seconds of a sub-step; a forecast interval is K of them."""
    without: tuple[str, ...] = ()
    """Operators taken out of the equations, by name."""
    terms: tuple[
        Literal["surroundings", "memory", "relaxation", "radiation", "upper_air", "upper_air_placebo"], ...
    ] = ()
    """Terms that extend the printed equations; they act on departures (``model.state``). The first four start at zero
    and are held over an interval (``model.closure_form``). ``upper_air`` couples the surface to a latent layer above:
    the temperature of the column is inferred from the history, evolves, and gives the wind aloft that steers θ, q and
    pressure (``stationpde ops show upper``); its placebo, for benchmarks, steers by the wind of another day. None by
    default: the skill they add does not pay for their time."""
    rule: Literal["none", "range", "limiter", "weathergft"] = "none"
    """Scaling of an Euler increment: by the range of the field (the paper's), by a limiter, by WeatherGFT's affine map,
    or none, with sub-steps short enough to be stable."""
    advection: Literal[
        "advection_upwind1", "advection_upwind3", "advection_central2", "advection_central4", "semi_lagrangian"
    ] = "advection_upwind1"
    """Scheme of the transport by wind."""
    max_wind: Positive = 40.0
    """Wind in m/s that fixes the number of stable parts of a sub-step; the advecting wind is limited to it."""
    pressure_gradient: Switch = False
    """Add a learned share of −(1/ρ)∇p to the wind; needs pressure without its terrain part (``model.state``)."""
    update_start: Share = 1.0
    """Factor γ of wind and pressure before the first step; near nothing, the equations move them only as far as the
    record supports it."""
    backend: Literal["auto", "torch", "fused", "inductor", "triton"] = "auto"
    """Implementation of the equations; ``auto`` takes the fused kernel where a C compiler is found, and Triton
    kernels on a GPU where triton is installed."""


class LossSection(Section):
    """Loss that training minimises."""

    kind: Literal["l1", "mse", "huber"] = "mse"
    """Norm of the errors."""
    observed: Annotated[Number, Field(ge=0.0)] = 0.5
    """λ_obs, weight of the loss in observed variables against that in the state."""
    residual: Annotated[Number, Field(ge=0.0, le=1e6)] = 0.0
    """Weight of the squared residual of the equations on the forecast fields of ``default``, ``field``, ``paper`` and
    the peer ``cdpnet``, after PhyDL-NWP, where it is 0.01; 0 leaves it out. The equations are those of the
    configuration without what networks add, each term with a coefficient λ that is learned on lifted observations."""


class TrainSection(Section):
    """Optimisation, validation, checkpoints and resources of training."""

    epochs: Count | Literal["auto"] = "auto"
    """Passes of the field over the training windows. ``auto``: one for each 55 days of training, at least two and at
    most eight, so that a record of weeks is not learned by heart and one of a year is learned."""
    max_steps: Count | None = None
    """Steps after which training ends, if that is before the last epoch."""
    batch: Annotated[Whole, Field(ge=1, le=65536)] = 8
    """Windows of a step."""
    lr: Positive = 2e-3
    """Learning rate, the peak under one-cycle."""
    schedule: Literal["constant", "one_cycle"] = "one_cycle"
    """Course of the learning rate over the steps."""
    average: Annotated[Number, Field(ge=0.0, lt=1.0)] = 0.0
    """Decay of the exponential weight average that is validated and used; 0 uses the weights as they are."""
    station_dropout: Annotated[Number, Field(ge=0.0, lt=1.0)] = 0.1
    """Share of stations that a training window hides, so that the model learns to forecast new ones."""
    seed: Annotated[Whole, Field(ge=0, lt=2**63)] = 0
    """Seed of initial weights, order of windows and hidden stations."""
    checkpoint_every: Count = 200
    """Steps between checkpoints."""
    validate_windows: Count | None = None
    """At most so many validation windows, evenly spaced; all by default."""
    patience: Count | None = 3
    """Epochs without a better validation score after which training ends."""
    calibrate: Switch = True
    """Fit the uncertainty of forecasts when training is done, as ``stationpde calibrate`` does; weights and scores do
    not change."""
    compile: Switch | Literal["auto"] = "auto"
    """Compile the networks with torch.compile; ``auto`` where so many steps pay for the slow start."""
    recompute: Switch = False
    """Activation checkpointing: less memory for more time; benchmarks.md has the figures."""
    threads: Annotated[Whole, Field(ge=0, le=4096)] = 0
    """Threads of torch; 0 leaves the choice to torch."""
