"""Readers by name: our own, a third party's through its entry point, a broken one that harms nothing."""

import logging
import zipfile
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from fields import readers
from fields.errors import DataError, UsageError
from fields.ingest.pipeline import IngestOptions, ingest_files
from fields.readers import Network, Reader, Source, registry
from fields.readers.axis import Axis
from reader_files import Weather, write_npz


class Thermometers(Source):
    """A third party's source."""

    reader, label = "thermometers", "made.up"
    units = {"t": "degC", "lat": "degrees", "lon": "degrees", "alt": "m"}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        weather = Weather(4, 72)
        self.values = weather.t
        self.axis = Axis(int(weather.time[0].astype(np.int64)), 3600, 72)
        self.network = Network(np.array(weather.ids), weather.lat, weather.lon, weather.alt)

    def read(self, start, stop):
        return {"t": self.values[start:stop]}


READER = Reader("thermometers", "a test", lambda path: 3 * (path.suffix == ".thermo"), lambda *_: Thermometers())
NO_READER = "something else"


@pytest.fixture
def plugins(monkeypatch):
    points = [
        EntryPoint("thermometers", "test_reader_registry:READER", registry.GROUP),
        EntryPoint("broken", "no_such_module_anywhere:READER", registry.GROUP),
        EntryPoint("no_reader", "test_reader_registry:NO_READER", registry.GROUP),
        EntryPoint("table", "test_reader_registry:READER", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: [p for p in points if p.group == group])
    monkeypatch.setattr(registry, "_loaded", {})
    monkeypatch.setattr(registry, "_broken", set())


def test_all_readers_of_the_package_load_and_say_what_they_are_for():
    shipped = [name for name in readers.names() if name in registry._SHIPPED]
    assert {"weather2k", "meteonet", "table", "arrays", "dataset", "synthetic"} <= set(shipped)
    for name in shipped:
        assert readers.reader(name).name == name
        assert readers.reader(name).summary


def test_an_unknown_reader_suggests_the_nearest():
    with pytest.raises(UsageError, match="no reader 'wether2k'") as caught:
        readers.reader("wether2k")
    assert "weather2k" in caught.value.do


def test_a_plug_in_is_found_by_its_entry_point_and_ingests(tmp_path, plugins):
    (tmp_path / "obs.thermo").write_text("anything")
    result = ingest_files(tmp_path / "obs.thermo", tmp_path / "o.zarr", IngestOptions(quality=False))
    assert (result.reader, result.stations, result.variables) == ("thermometers", 4, ("t",))


def test_a_broken_plug_in_is_skipped_with_a_warning_and_harms_nothing(tmp_path, plugins, caplog):
    with caplog.at_level(logging.WARNING, logger="fields"):
        assert readers.detect(write_npz(tmp_path / "o.npz", Weather(2, 5))).name == "arrays"
    messages = " ".join(record.getMessage() for record in caplog.records)
    assert "'broken'" in messages
    assert "'no_reader'" in messages


def test_a_plug_in_cannot_take_the_name_of_a_reader_of_ours(plugins):
    assert readers.reader("table").summary.startswith("CSV")


def test_what_nobody_recognises_is_refused_with_what_it_is(tmp_path):
    (tmp_path / "song.csv").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    with pytest.raises(DataError, match="it is a picture file"):
        readers.detect(tmp_path / "song.csv")


@pytest.mark.parametrize("marks", [(".zgroup", "t/.zarray"), ("zarr.json",), ("m.zarr/zarr.json", "m.zarr/t/c/0")])
def test_a_packed_store_is_refused_with_what_to_do(tmp_path, marks):
    with zipfile.ZipFile(tmp_path / "mine.zarr.zip", "w") as archive:
        for name in marks:
            archive.writestr(name, "{}")
    with pytest.raises(DataError, match="is a zarr store that is packed") as caught:
        readers.detect(tmp_path / "mine.zarr.zip")
    assert caught.value.do.startswith("unpack it")
