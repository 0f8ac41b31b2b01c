"""Find the columns of the time, their format, the order of dates and the clock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from fields.readers.date_order import DateOrders, UndecidedOrder
from fields.readers.drafting.names import Name, is_called
from fields.readers.time_text import parse_times
from fields.times import DATE_ORDERS

__all__ = ["TimeGuess", "called_times", "guess_times"]


@dataclass(frozen=True, slots=True)
class TimeGuess:
    """Columns of the time by number, with format, order and clock (None where nothing says it)."""

    columns: tuple[int, ...]
    form: str
    order: str | None = None
    zone: str | None = None
    aware: bool = False
    unsure: list[str] = field(default_factory=list)


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WHOLE = _set(
    "aaaammjjhh dat data data_hora datahora date date_heure date_obs date_time date_utc dateheure datetime "
    "datetime_utc dateutc datum datum_zeit day_time dt fecha fecha_hora fechahora fint localtime mess_datum "
    "messdatum moment obs_time observation_time observed_at obstime reference_time time time_local time_utc "
    "timestamp ts utc utc_time valid valid_time validity_time yyyymmddhh yyyymmddhhmm zeit"
)
_DATE = _set(
    "aaaammjj data data_medicao data_yyyy_mm_dd date date_obs date_utc datum day dia dt dt_medicao fecha jour "
    "messtag tag yyyymmdd"
)
_CLOCK = _set(
    "clock heure heure_utc hh hhmm hora hora_medicao hora_utc hour hour_utc hr hr_medicao hrs stunde time "
    "time_utc uhrzeit zeit"
)
_PARTS = {
    "Y": _set("an annee ano jahr year yr yy yyyy"),
    "m": _set("mes mm mo mois mon monat month mth"),
    "d": _set("d day dd dia dy jour tag"),
    "H": _set("h heure hh hora hour hr std stunde"),
    "M": _set("mi min minute minuten minuto mn"),
}
_LOCAL = _set("cest cet cst edt est local localtime lst lt mesz mez mst pst")
_LAST_HOUR = re.compile(r"[ T]24(?:h| UTC|:?00(?::00)?| 00?)?$")
# Formats of a whole time by what its text looks like; the first that fits every text is taken.
_FORMS = (
    (r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*", "iso"),
    (r"\d{14}", "%Y%m%d%H%M%S"),
    (r"\d{13}", "unix-ms"),
    (r"\d{12}", "%Y%m%d%H%M"),
    (r"\d{10}", "%Y%m%d%H"),
    (r"\d{9,10}", "unix"),
    (r"\d{8} \d{2}:\d{2}", "%Y%m%d %H:%M"),
    (r"\d{8}[ T]\d{4}", "%Y%m%d %H%M"),
    (r"\d{8}:\d{4}", "%Y%m%d:%H%M"),
    (r"\d{8} \d{2}:\d{2}:\d{2}", "%Y%m%d %H:%M:%S"),
    (r"\d{4}/\d{1,2}/\d{1,2} \d{1,2}:\d{2}", "%Y/%m/%d %H:%M"),
    (r"\d{4}/\d{1,2}/\d{1,2} \d{1,2}:\d{2}:\d{2}", "%Y/%m/%d %H:%M:%S"),
    (r"\d{4}-\d{2}-\d{2} \d{1,2}", "%Y-%m-%d %H"),
    (r"\d{1,4}[/.\-]\d{1,2}[/.\-]\d{1,4}[ T,]+\d{1,2}:?\d{2}.*", "dates"),
    (r"[2-6]\d{4}(\.\d+)?", "excel"),
)
_DAYS = (
    (r"\d{4}-\d{1,2}-\d{1,2}", "%Y-%m-%d"), (r"\d{4}/\d{1,2}/\d{1,2}", "%Y/%m/%d"), (r"\d{8}", "%Y%m%d"),
    (r"\d{1,2}[/.\-]\d{1,2}[/.\-]\d{2,4}", "dates"),
)  # fmt: skip
_HOURS = (
    (r"\d{4} UTC", "%H%M UTC"), (r"\d{1,2}:\d{2}", "%H:%M"), (r"\d{1,2}:\d{2}:\d{2}", "%H:%M:%S"), (r"\d{4}", "%H%M"),
    (r"\d{1,2}", "%H"), (r"\d{1,2}h", "%Hh"),
)  # fmt: skip


def guess_times(names: Sequence[Name], cells: Sequence[Sequence[str]]) -> TimeGuess | None:
    """Find the time in the columns of a table; None where there is none."""
    named = [i for i, name in enumerate(names) if is_called(name, _WHOLE) or is_called(name, _DATE)]
    other = [i for i, name in enumerate(names) if i not in named and set(name.words) & (_WHOLE | _DATE | _CLOCK)]
    for i in (*named, *other):
        guess = _whole(i, names[i], cells[i])
        if guess is not None:
            return guess
    for i in (*named, *other):
        guess = _date_and_clock(i, (*other, *range(len(names))), names, cells)
        if guess is not None:
            return guess
    guess = _parts(names, cells)
    if guess is not None:
        return guess
    for i in range(len(names)):
        guess = _whole(i, names[i], cells[i], certain=True)
        if guess is not None:
            return guess
    return None


def _whole(i: int, name: Name, cells: Sequence[str], certain: bool = False) -> TimeGuess | None:
    texts = _texts(cells)
    for pattern, form in _FORMS[: 5 if certain else None]:
        if texts and all(re.fullmatch(pattern, text) for text in texts):
            guess = _read((i,), form, texts, [name])
            if guess is not None:
                return guess
    return None


def _date_and_clock(
    i: int, others: Sequence[int], names: Sequence[Name], cells: Sequence[Sequence[str]]
) -> TimeGuess | None:  # fmt: skip
    days = _texts(cells[i])
    day = next((form for pattern, form in _DAYS if days and all(re.fullmatch(pattern, t) for t in days)), None)
    if day is None:
        return None
    for k in dict.fromkeys(others):
        if k == i or not (is_called(names[k], _CLOCK) or set(names[k].words) & _CLOCK):
            continue
        hours = _texts(cells[k])
        for pattern, form in _HOURS:
            if hours and all(re.fullmatch(pattern, text) for text in hours):
                joined = list(dict.fromkeys(f"{a} {b}" for a, b in zip(cells[i], cells[k])))
                whole = "dates" if day == "dates" else f"{day} {form}"
                whole = "iso" if whole == "%Y-%m-%d %H:%M" else whole
                guess = _read((i, k), whole, joined, [names[i], names[k]], is_utc=form.endswith("UTC"))
                if guess is not None:
                    return guess
    return None


def _parts(names: Sequence[Name], cells: Sequence[Sequence[str]]) -> TimeGuess | None:
    """Find a time whose year, month, day and hour have columns of their own."""
    columns = []
    for letter, words in _PARTS.items():
        there = [i for i, name in enumerate(names) if name.joined in words or (name.words and name.words[0] in words
                 and len(name.words) == 2 and name.words[1] == "utc")]  # fmt: skip
        there = [i for i in there if cells[i] and all(re.fullmatch(r"\d{1,4}(\.0)?", cell) for cell in cells[i])]
        if not there and letter != "M":
            return None
        columns += there[:1]
    form = "%Y %m %d %H %M" if len(columns) == 5 else "%Y %m %d %H"
    joined = list(dict.fromkeys(" ".join(row) for row in zip(*(cells[i] for i in columns))))
    return _read(tuple(columns), form, joined, [names[i] for i in columns])


def _read(
    columns: tuple[int, ...], form: str, texts: list[str], names: list[Name], *, is_utc: bool = False
) -> TimeGuess | None:  # fmt: skip
    """Read texts by a format; None where it does not fit them."""
    array, order, unsure = pa.array(texts, pa.string()), None, []
    if form == "dates":
        orders = DateOrders()
        orders.add(array)
        if orders.first and not orders.open:
            return None
        order = orders.open[0] if len(orders.open) == 1 or (orders.open and not orders.differ) else None
        if orders.open and order is None:
            ways = " or ".join(DATE_ORDERS[o] for o in orders.open)
            unsure.append(f"dates such as {orders.first} may be {ways}: ingest looks for a date that decides")
    try:
        parsed = parse_times(array, (form,), order or ("dmy" if form == "dates" else None))
    except UndecidedOrder:
        return None
    if parsed.bad >= 0 and not (form == "dates" and order is None):
        return None
    aware = bool(parsed.aware.all()) and form != "excel"
    words = {word for name in names for word in (*name.words, *name.bracket.lower().split())}
    zone = "UTC" if is_utc or words & {"utc", "gmt", "z"} else None
    if words & _LOCAL:
        unsure.append('the name says local time: give its zone, as "Europe/Paris" or "UTC-3"')
    elif zone is None and not aware:
        unsure.append("nothing says whose clock this is: UTC is taken unless `zone` says otherwise")
    if any(_LAST_HOUR.search(text) for text in texts):
        unsure.append("hours run to 24, which is read as the first moment of the next day")
    return TimeGuess(columns, form, order, zone, aware, unsure)


def called_times(names: Sequence[Name]) -> list[int]:
    """Return the columns whose names are those of a time, a day or an hour, whatever they hold."""
    return [i for i, name in enumerate(names) if any(is_called(name, words) for words in (_WHOLE, _DATE, _CLOCK))]


def _texts(cells: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(cell for cell in cells if cell))
