"""Write a drafted column map as TOML, each guess with what it rests on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from fields.errors import printable
from fields.readers.drafting.places import PlaceGuess
from fields.readers.drafting.sample import Sample
from fields.readers.drafting.times import TimeGuess
from fields.readers.drafting.variables import VariableGuess

__all__ = ["map_text"]

_UNSURE = "unsure: "


def map_text(
    sample: Sample, times: TimeGuess, places: PlaceGuess, variables: Mapping[str, VariableGuess],
    missing: Iterable[str], notes: Iterable[str],
) -> str:  # fmt: skip
    """Write the map of a table. What is unsure stands behind the line that it concerns, marked as such."""
    lines = [f"# Column map of {_comment(sample.label)}, drafted from its names and its first {sample.rows:,} rows.",
             "# Lines with \"unsure\" are guesses: look at them. Take out what you do not want."]  # fmt: skip
    lines += [f"# {_UNSURE}{_comment(note)}" for note in notes]
    lines.append(f"title = {_text(sample.label)}")
    if "psl" in variables and "p" not in variables:
        lines.append('pressure_kind = "sea_level"')
    if sample.layout is not None:
        lines += ["", "[file]", *_file(sample, tuple(missing))]
    lines += ["", "[time]", *_time(sample, times), "", "[station]", *_station(places), "", "[variables]"]
    lines += [_variable(sample, name, guess) for name, guess in variables.items()]
    read = {*times.columns, *places.read, *(guess.column for guess in variables.values())}
    rest = [_comment(column)[:60] for i, column in enumerate(sample.columns) if i not in read and column]
    if rest:
        lines.append(f"# not read: {', '.join(rest[:40])}{', …' if len(rest) > 40 else ''}")
    return "\n".join(lines) + "\n"


def _file(sample: Sample, missing: tuple[str, ...]) -> list[str]:
    form = sample.form
    separator = {"\t": "tab"}.get(form.separator, form.separator)
    lines = [f"separator = {_text(separator)}", f"decimal = {_text(form.decimal)}",
             f"encoding = {_text(form.encoding)}"]  # fmt: skip
    if form.header_lines:
        lines.append(f"header_lines = {form.header_lines}")
    if form.comment:
        lines.append(f"comment = {_text(form.comment)}")
    if missing:
        lines.append(f"missing = {_list(missing)}  # {_UNSURE}words that stand among numbers")
    return lines


def _time(sample: Sample, times: TimeGuess) -> list[str]:
    lines = [f"columns = {_list(sample.columns[i] for i in times.columns)}", f"format = {_text(times.form)}"]
    if times.order is not None:
        lines.append(f'date_order = "{times.order}"')
    if times.zone is not None:
        lines.append(f'zone = "{times.zone}"')
    lines += [f"# {_UNSURE}{_comment(note)}" for note in times.unsure]
    if times.zone is None and not times.aware:
        lines.append('# zone = "UTC"')
    return lines


def _station(places: PlaceGuess) -> list[str]:
    lines = [f"# {_UNSURE}{_comment(note)}" for note in places.unsure]
    lines.append(f'from = "{places.source}"')
    if places.source == "name":
        lines.append("pattern = '^([A-Za-z0-9]+)'")
    lines += [f"{key} = {_text(places.entries[key])}" for key in ("key", "id", "lat", "lon", "alt", "name", "wigos")
              if key in places.entries]  # fmt: skip
    if places.lacks_altitude:
        lines.append("# unsure: nothing gives the altitude: an elevation model does, --dem FILE")
    if places.units:
        lines.append(f"units = {{ {', '.join(f'{name} = {_text(unit)}' for name, unit in places.units.items())} }}")
    return lines


def _variable(sample: Sample, name: str, guess: VariableGuess) -> str:
    entries: dict[str, Any] = {"column": sample.columns[guess.column], "unit": guess.unit.unit}
    if guess.split:
        entries |= {"split": guess.split, "part": guess.part}
    if guess.unit.scale != 1.0:
        entries["scale"] = guess.unit.scale
    if guess.missing:
        entries["missing"] = list(guess.missing)
    pairs = ", ".join(f"{key} = {_value(value)}" for key, value in entries.items())
    why = f"{_UNSURE}{guess.unit.unsure}" if guess.unit.unsure else guess.unit.why
    return f"{'# ' if guess.is_empty else ''}{name} = {{ {pairs} }}{f'  # {_comment(why)}' if why else ''}"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    return _list(value) if isinstance(value, list) else repr(value)


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _text(value: str) -> str:
    """Quote a text: the escapes of JSON are those of TOML, but for the delete character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _comment(text: str) -> str:
    return " ".join(printable(text).split())
