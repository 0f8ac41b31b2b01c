"""Column maps: what they may say, what is refused with the key or the line, and those that ship."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fields.errors import FieldsError, UsageError
from fields.readers.column_map import MapError, load_map, parse_map, shipped_map, shipped_maps

VARIABLES = '[variables]\nt = { column = "t", unit = "degC" }\n'


def parsed(text: str):
    return parse_map((VARIABLES + text).encode(), "mine.toml")


def test_the_shipped_maps_are_sound_and_reached_by_name():
    assert {"inmet", "tidy", "meteonet", "asos", "noaa_hourly"} <= set(shipped_maps())
    for name in shipped_maps():
        assert load_map(name) == shipped_map(name)


def test_a_smallest_map_takes_the_rest_from_defaults():
    column_map = parsed("")
    assert column_map.time.columns == (("time",),)
    assert column_map.stations.source == "columns"
    assert column_map.text.separator == "auto"


def test_units_given_by_the_user_replace_those_of_the_map():
    column_map = parsed("").with_units({"t": "K", "alt": "ft"})
    assert column_map.variables["t"].unit == "K"
    assert column_map.stations.units["alt"] == "ft"


WRONG = {
    "[fiel]\nseparator = ';'": "did you mean 'file'",
    "[file]\nseperator = ';'": "did you mean 'separator'",
    "[file]\nseparator = '::'": "one ASCII character",
    "[file]\nseparator = ','\ndecimal = ','": "both a comma",
    "[file]\nencoding = 'klingon'": "not one that tables use",
    "[file]\nencoding = 'utf-16'": "not one that tables use",
    "[file]\nheader_lines = -1": "from 0 to 1000",
    "[file]\nheader_lines = true": "from 0 to 1000",
    "[time]\ncolumns = 'time'": "must be a list",
    "[time]\nformat = 'yyyy-mm-dd'": "no % directive",
    "[time]\nzone = 'Mars'": "not a time zone",
    "[time]\nstep = 'often'": "not a span of time",
    "[station]\nfrom = 'above'": "choose one of columns, header, file, name",
    "[station]\nfrom = 'name'\npattern = '('": "with one group",
    "[station]\nfrom = 'name'\npattern = '(a*)*b'": "with one group",
    "[station]\nunits = { alt = 'kelvin' }": "does not measure",
    "[station]\nid = 7": "text or a list of texts",
    "[variables.rh]\ncolumn = 'rh'": "needs `column` and `unit`",
    "[variables.rh]\ncolumn = 'rh'\nunit = 'hPa'": "does not measure",
    "[variables.rh]\ncolumn = 'rh'\nunit = '%'\nscale = 0": "factor other than 0",
    "[variables.rh]\ncolumn = 'rh'\nunit = '%'\npart = -1": "from 0 to 99",
    "[variables.hum]\ncolumn = 'rh'\nunit = '%'": "unknown key 'hum'",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_a_map_cannot_say_is_refused_with_what_was_meant(text):
    with pytest.raises(MapError) as caught:
        parsed(text)
    assert caught.value.exit_code == 4
    assert "mine.toml" in str(caught.value)
    assert WRONG[text] in str(caught.value)


def test_broken_toml_is_refused_with_its_line():
    with pytest.raises(MapError, match="line 4"):
        parsed("\nthis = = wrong")


def test_a_map_without_variables_is_refused_with_an_example():
    with pytest.raises(MapError, match="names no column"):
        parse_map(b"", "mine.toml")


def test_a_map_that_is_not_there_names_those_that_ship(tmp_path):
    with pytest.raises(UsageError) as caught:
        load_map(tmp_path / "absent.toml")
    assert "inmet" in caught.value.do


TEXT = st.text(max_size=12)
VALUE = st.recursive(
    st.one_of(st.booleans(), st.integers(-10, 10), st.floats(allow_nan=False), TEXT),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
KEYS = st.sampled_from(
    ["separator", "decimal", "encoding", "header_lines", "missing", "columns", "format", "zone", "step", "from", "id",
     "lat", "pattern", "units", "file", "column", "unit", "scale", "part", "split"]
)  # fmt: skip


def rendered(value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(c):08x}" for c in value if not 0xD800 <= ord(c) <= 0xDFFF) + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(rendered, value)) + "]"
    return repr(value)


@given(st.sampled_from(["file", "time", "station", "variables.p"]), st.dictionaries(KEYS, VALUE, max_size=4))
def test_whatever_a_map_says_it_is_read_or_refused_with_a_typed_error(table, content):
    text = VARIABLES + f"[{table}]\n" + "".join(f"{key} = {rendered(value)}\n" for key, value in content.items())
    tomllib.loads(text)
    outcome = None
    try:
        parse_map(text.encode(), "mine.toml")
    except FieldsError as problem:
        outcome = problem
    assert outcome is None or outcome.exit_code == 4


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_with_a_typed_error(raw):
    with pytest.raises(MapError):
        parse_map(raw, "mine.toml")


def test_who_wrote_a_map_is_advised_to_mend_it_and_who_did_not_to_write_one():
    own, shipped = parsed(""), shipped_map("tidy")
    assert own.advice("correct `format`", "with the format") == "in the column map mine.toml, correct `format`"
    assert shipped.advice("correct `format`", "with the format").startswith("--map FILE.toml   with the format")


def test_words_are_a_unit_of_directions_alone():
    assert parsed('dd = { column = "dd", unit = "compass" }').variables["dd"].unit == "compass"
    with pytest.raises(MapError, match=r"no known unit|does not measure") as caught:
        parse_map(VARIABLES.replace("degC", "compass").encode(), "mine.toml")
    # An option would come after the map was read.
    assert caught.value.do == "declare one of degC, K, degF"
