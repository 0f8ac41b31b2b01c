"""Wrong inputs to every command: the code of the error, and what happens to somebody who follows its advice.

A case is a command line, the code of its error, and the end of following the advice literally: ``mended`` (the command
succeeds), the code of the next error, or ``words`` for an advice that only people can follow. Following it never leads
back to an error that was met before.
"""

import json
import shutil

import pytest

from advice import next_line
from reader_files import write_rows
from wrong_inputs import write_wrong_inputs

# What the advice leads to: exit code 0, or an advice that cannot be typed.
MENDED, WORDS = "mended", "words"
INGEST = """
D012 mended  data ingest pascal.csv -o OUT
D012 mended  data ingest kelvin.csv -o OUT
D012 mended  data ingest fraction.csv -o OUT
D012 mended  data ingest mercury.csv -o OUT
D012 mended  data ingest two_slips.csv -o OUT
D012 mended  data ingest low_pressure.csv -o OUT
D012 mended  data ingest storm_knots.csv -o OUT
D011 mended  data ingest hot.csv -o OUT
D015 mended  data ingest feet.csv -o OUT
D015 mended  data ingest high_9999.csv -o OUT
D015 mended  data ingest high_9500.csv -o OUT
D015 mended  data ingest high_9500.csv -o OUT --unit alt=ft
D015 mended  data ingest high_million.csv -o OUT
D016 mended  data ingest sea_level.csv -o OUT
D014 mended  data ingest east_360.csv -o OUT
D014 mended  data ingest lon_999.csv -o OUT
D013 mended  data ingest exchanged.csv -o OUT
D013 mended  data ingest lat_95.csv -o OUT
D013 mended  data ingest one_exchanged.csv -o OUT
D125 mended  data ingest american_dates.csv -o OUT
D128 words   data ingest two_temperatures.csv -o OUT
D021 mended  data ingest polar.csv -o OUT
D008 mended  data ingest unplaced.csv -o OUT
D023 mended  data ingest moved.csv -o OUT
D034 mended  data ingest contradiction.csv -o OUT
D036 mended  data ingest irregular.csv -o OUT
D036 words   data ingest stray.csv -o OUT
D019 mended  data ingest empty_pressure.csv -o OUT
D019 words   data ingest empty_temperature.csv -o OUT
D019 words   data ingest silent.csv -o OUT
D010 words   data ingest bad_time.csv -o OUT
D010 words   data ingest good.csv -o OUT --map no_such_format.toml
D126 words   data ingest word.csv -o OUT
D126 words   data ingest good.csv -o OUT --map text_column.toml
D126 mended  data ingest compass.csv -o OUT
D126 words   data ingest compass_and_degrees.csv -o OUT
D126 words   data ingest compass_and_degrees.csv -o OUT --unit dd=compass
D126 words   data ingest dutch.csv -o OUT --unit dd=compass
D126 mended  data ingest degrees.csv -o OUT --unit dd=compass
D007 words   data ingest good.npz -o OUT --unit dd=compass
D007 mended  data ingest good.npz -o OUT --unit p=kt
D007 mended  data ingest good.npz -o OUT --unit p=hektopaskal
D007 words   data ingest good.npz -o OUT --unit ff=kt
D007 mended  data ingest no_unit.nc -o OUT
D008 words   data ingest no_alt.nc -o OUT
D124 mended  data ingest other_columns.csv -o OUT
D124 words   data ingest good.csv -o OUT --map no_such_column.toml
D124 words   data ingest good.csv -o OUT --map whitespace.toml
D124 words   data ingest good.csv -o OUT --map asos
D122 words   data ingest bare_cr.csv -o OUT
D122 words   data ingest one_column.csv -o OUT
D123 words   data ingest nul.csv -o OUT
D123 words   data ingest short_line.csv -o OUT
D025 words   data ingest header.csv -o OUT
D033 words   data ingest no_id.csv -o OUT
D033 D033    data ingest twice.npz -o OUT
D107 words   data ingest empty.csv -o OUT
D107 words   data ingest nothing -o OUT
D107 words   data ingest pickled.bin -o OUT
D107 mended  data ingest good.csv -o OUT --reader tabel
D102 mended  data ingest good.csv -o OUT --reader weather2k
D101 words   data ingest objects.npy -o OUT
D103 words   data ingest cut.csv.gz -o OUT
D105 mended  data ingest good.npz -o OUT --max-bytes 10
D144 words   data ingest no_lat.npz -o OUT
D010 words   data ingest time_float.npz -o OUT
D140 words   data ingest seven_channels.npy -o OUT
D142 mended  data ingest no_times.npy -o OUT
D120 words   data ingest good.csv -o OUT --map broken.toml
D120 words   data ingest good.csv -o OUT --map unknown_key.toml
D120 words   data ingest good.csv -o OUT --map wrong_unit.toml
D134 words   data ingest good.csv -o OUT --map from_list.toml
D133 words   data ingest good.csv -o OUT --map from_list.toml --station-list one_of_them.csv
D100 words   data ingest nowhere.csv -o OUT
D110 words   data ingest good.npz -o OUT --step often
D110 mended  data ingest good.npz -o OUT --tolerance 3h
D109 words   data ingest good.npz -o OUT --only NOPE
D008 words   data ingest good.npz -o OUT --missing t=guess
D003 mended  data ingest good.npz -o taken.zarr
D003 words   data ingest good.npz -o mine.txt
X001 words   data ingest good.npz
"""
STORES = """
D003 mended  data synth taken.zarr --station-count 4 --days 1
D005 words   data info nowhere.zarr
D055 words   data info good.csv
D108 words   data where tabel
D001 words   data info stations.zarr --variable q --plot OUT.png
D083 words   data info stations.zarr --dem good.csv --plot OUT.png
D003 words   field lift stations.zarr taken.zarr --height 8 --variables t
D003 words   field lift stations.zarr stations.zarr --height 8 --variables t
D003 mended  field lift stations.zarr taken_fields.zarr --height 8 --variables t
D077 mended  field lift stations.zarr OUT --height 8 --variables t --method idx
D076 words   field lift stations.zarr OUT --w-alt 5
D087 mended  field lift stations.zarr OUT --height 8 --variables q
D070 words   field lift fields.zarr OUT
D070 words   field cv fields.zarr
D086 words   field cv single.zarr
D086 words   field cv stations.zarr --block-km 5000
D088 words   field sample stations.zarr one_of_them.csv
D090 words   field sample fields.zarr far_place.csv
D090 words   field sample fields.zarr no_places.csv
D100 words   field sample fields.zarr nowhere.csv
D091 mended  field plot fields.zarr -o OUT.png --variable q
D089 mended  field plot fields.zarr -o OUT.png --at 1999-01-01
D089 mended  field plot fields.zarr -o OUT.png --at yesterday
"""
MODELS = """
D156 words   train nowhere
D155 words   train weather2k
D155 words   benchmark weather2k
D155 words   plot w-alt weather2k -o OUT.png
D070 words   train fields.zarr --run OUT
D151 words   train stations.zarr --run OUT --preset tiny --set data.step=30min
D153 words   train stations.zarr --run OUT --preset tiny
C001 mended  train stations.zarr --run OUT --set train.epoch=3
C002 words   train stations.zarr --run OUT --set epochs
C003 mended  train stations.zarr --run OUT -c nowhere.toml
C003 words   train stations.zarr --run OUT -c broken.toml
C004 words   train stations.zarr --run OUT --preset tinny
X001 words   train stations.zarr --run OUT --epochs 3
B001 words   benchmark stations.zarr --protocol foo
B001 D153    benchmark stations.zarr --horizons 5 -o OUT
B007 words   benchmark stations.zarr --set data.quality=full -o OUT
B006 words   ablate stations.zarr --parts no_such -o OUT
P002 words   benchmark stations.zarr --models nomodel -o OUT
P002 words   ops show advecton
C003 mended  config validate nowhere_either.toml
R020 words   demo -o mine.txt
T090 words   run verify nothing
R012 words   plot parts broken.toml -o OUT.png
R011 words   plot transport stations.zarr -o OUT.png --hours 1000
"""
RUNS = """
T090 words   forecast nothing --obs obs.csv
D156 words   forecast RUN --obs nowhere.csv
D155 words   forecast RUN --obs weather2k
D012 mended  forecast RUN --obs pascal_obs.csv
D134 words   forecast RUN --obs obs.csv --map from_list.toml
D090 words   forecast RUN --obs obs.csv --stations far_place.csv
T090 words   forecast RUN --obs obs.csv --stations nowhere.csv
T092 words   forecast RUN --obs obs.csv --at 2030-01-01
T110 words   forecast RUN --obs obs.csv --accept foreign
T111 mended  forecast RUN --obs obs.csv --horizon 99
T113 words   forecast RUN --obs elsewhere.csv
D112 words   forecast RUN --obs year_2091.csv
D125 D153    evaluate RUN --obs american_dates.csv
D128 words   report RUN --obs two_temperatures.csv -o OUT.html
D110 words   forecast RUN --obs obs.csv --at someday
T095 words   forecast RUN --obs obs.csv --max-age 1h
T097 words   forecast RUN --obs obs.csv -o OUT.xyz
T098 mended  forecast RUN --obs obs.csv -o taken.csv
B004 words   evaluate RUN
D012 mended  evaluate RUN --obs pascal_obs.csv --windows 1
B003 mended  evaluate RUN --obs obs.zarr --windows 1 --by month
B005 words   evaluate RUN --obs obs.zarr --against paper
D155 words   evaluate RUN --obs weather2k
D012 mended  report RUN --obs pascal_obs.csv -o OUT.html --windows 1
D155 words   report RUN --obs weather2k -o OUT.html
R001 words   report RUN -o OUT.xyz
R002 words   report RUN -o folder.html
R002 mended  report RUN --obs obs.zarr -o taken.html --windows 1
R010 mended  report RUN --obs obs.zarr -o OUT.html --windows 1 --at 1999-01-01
R005 words   report RUN --obs obs.zarr -o OUT.html --against dlinear
B004 words   plot map RUN -o OUT.png
D155 words   plot map RUN --obs weather2k -o OUT.png
R004 words   plot map RUN --obs obs.zarr -o OUT.png --variable q
R003 words   plot series RUN --obs obs.zarr -o OUT.png --station S0
T098 words   export RUN -o mine.txt
T090 words   export nothing -o OUT
"""


def cases(table):
    lines = [line.split(None, 2) for line in table.strip().splitlines()]
    return [pytest.param(code, end, line, id=f"{code} {line}") for code, end, line in lines]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from fields.lift import lift_to_store

    folder = write_wrong_inputs(tmp_path_factory.mktemp("wrong"))
    lift_to_store(folder / "stations.zarr", folder / "fields.zarr", height=8, variables=["t"])
    shutil.copytree(folder / "stations.zarr", folder / "taken.zarr")
    shutil.copytree(folder / "fields.zarr", folder / "taken_fields.zarr")
    for name in ("taken.csv", "taken.html"):
        (folder / name).write_text("an earlier one")
    return folder


@pytest.fixture(scope="module")
def trained(folder):
    """Add a run, the record that it was trained on, and tables of it, one of them with the pressure in pascal."""
    from fields.store import write_store
    from small_network import small_config, small_series
    from small_run import dataset, table
    from stationpde.training.session import train

    write_store(dataset(), folder / "obs.zarr")
    train(small_config(overrides=("train.max_steps=1", "train.validate_windows=1", "train.batch=2")), small_series(),
          folder / "run")  # fmt: skip
    # Too short for a check of the wind's direction, which is random here.
    table(slice(-12, None), folder / "obs.csv")
    series = small_series()
    units = {"u": 1.0, "v": 1.0, "p": 1.0, "t": 1.0, "rh": 100.0}
    places = ("lat", "lon", "alt")
    rows = [
        {"station": name, "time": str(time), **{c: float(getattr(series.stations, c)[s]) for c in places},
         **{n: float(units[n] * row[s, c]) - 273.15 * (n == "t") for c, n in enumerate(units)}}
        for time, row in zip(series.time.astype("datetime64[s]"), series.values)
        for s, name in enumerate(series.stations.id)
    ]  # fmt: skip
    write_rows(folder / "pascal_obs.csv", rows)
    return folder


@pytest.fixture
def follow(stationpde, monkeypatch):
    """Return a function that types a line, then what its advice says, until that succeeds or nothing can be typed."""

    def typed(words):
        status, out, err = stationpde(*words, "--json")
        answer = json.loads(out) if out.strip() else {}
        assert status == 0 or "error" in answer, err
        return status, answer.get("error", {})

    def follow(folder, line, number):
        monkeypatch.chdir(folder)
        words = [word.replace("OUT", f"out{number}").replace("RUN", "run") for word in line.split()]
        if words[:2] in (["data", "ingest"], ["field", "lift"]):
            words = [f"{word}.zarr" if word == f"out{number}" else word for word in words]
        status, error = typed(words)
        codes, met = [error.get("code", "")], {(error.get("code"), error.get("do"))}
        while status != 0 and (lines := next_line(words, error.get("do"))):
            for words in lines:
                status, error = typed(words)
                if status != 0:
                    break
            finding = (error.get("code"), error.get("do"))
            assert status == 0 or finding not in met, f"{codes} lead back to {finding}"
            met.add(finding)
            codes.append(error.get("code", ""))
        return status, codes

    return follow


def check(status, codes, code, end):
    assert codes[0] == f"SPDE-{code}"
    if end == MENDED:
        assert status == 0 and len(codes) > 1, codes
    elif end == WORDS:
        assert len(codes) == 1, codes
    else:
        assert status != 0 and codes[-1] == f"SPDE-{end}" and len(codes) > 1, codes


@pytest.mark.parametrize(("code", "end", "line"), [*cases(INGEST), *cases(STORES), *cases(MODELS)])
def test_the_advice_on_wrong_input_works(folder, follow, code, end, line, request):
    check(*follow(folder, line, abs(hash(request.node.name))), code, end)


@pytest.mark.parametrize(("code", "end", "line"), cases(RUNS))
def test_the_advice_on_wrong_input_to_a_run_works(trained, follow, code, end, line, request):
    check(*follow(trained, line, abs(hash(request.node.name))), code, end)


def test_many_codes_are_met_through_the_command():
    codes = {line.split()[0] for table in (INGEST, STORES, MODELS, RUNS) for line in table.strip().splitlines()}
    assert len(codes) >= 60


def test_advice_that_leads_back_is_noticed(folder, follow, monkeypatch):
    """Bring back a gate that advises feet for one mistyped altitude, and then metres."""
    from fields.checks import network

    monkeypatch.setattr(network, "_stands_out", lambda alt, highest: False)
    monkeypatch.setattr(network, "mend_or_drop", lambda odd, subject, options="": f"{subject.command}{options}")
    with pytest.raises(AssertionError, match="lead back to"):
        follow(folder, "data ingest high_9500.csv -o OUT", 0)
