"""The report in a real browser: the slider is moved, stations are clicked, nothing complains, a phone can read it."""

from dataclasses import replace

import numpy as np
import pytest

from browser_pipe import CHROMIUM, Browser
from fields.variables import STATE_VARIABLES
from reported_run import HOSTILE, reported_view
from reported_uncertainty import uncertain_view
from stationpde.report import write_page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

SERIES = "[...document.querySelectorAll('#series svg path')].map(p => p.getAttribute('d')).join()"
PIXELS = "document.getElementById('canvas').toDataURL()"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return write_page(reported_view(), tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def quiet(browser):
    """Whatever a test does with the page, the console stays empty and nothing is fetched."""
    browser.problems.clear()
    browser.requests.clear()
    yield browser
    browser.run("1")  # takes in what is still under way
    assert browser.problems == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []


def test_moving_the_slider_changes_time_and_map(quiet, report):
    quiet.look_at(report, 1200, 900)
    before, pixels = quiet.run("document.getElementById('when').textContent"), quiet.run(PIXELS)
    quiet.run("document.getElementById('time').focus()")
    quiet.press("ArrowLeft", 37)
    after = quiet.run("document.getElementById('when').textContent")
    assert "12 h ahead" in before and "9 h ahead" in after
    assert quiet.run(PIXELS) != pixels
    for _ in range(3):
        quiet.press("ArrowLeft", 37)
    assert "at issue" in quiet.run("document.getElementById('when').textContent")


@pytest.mark.parametrize(("width", "phone"), [(1200, False), (390, True)])
def test_clicking_a_station_shows_its_series(quiet, report, width, phone):
    quiet.look_at(report, width, 844, phone=phone, dark=phone)
    assert quiet.run("document.getElementById('station-name').textContent") == HOSTILE[0]
    before = quiet.run(SERIES)
    quiet.click("[data-station='7']")
    assert quiet.run("document.getElementById('station-name').textContent") == "SY007"
    assert quiet.run(SERIES) != before
    assert quiet.run("document.querySelectorAll('.station.chosen').length") == 1


def test_a_phone_scrolls_down_and_never_sideways(quiet, report):
    quiet.look_at(report, 390, 844, phone=True)
    assert quiet.run("document.documentElement.scrollWidth") <= 390
    texts = "[...document.querySelectorAll('p, td, th, h1, h2, h3, select, button')]"
    assert min(quiet.run(f"{texts}.map(e => parseFloat(getComputedStyle(e).fontSize))")) >= 12.0


def test_the_other_layers_and_variables_are_drawn(quiet, report):
    quiet.look_at(report, 900, 800)
    seen = {quiet.run(PIXELS)}
    for element, value in (("variable", "rh"), ("layer", "truth"), ("layer", "difference"), ("variable", "u")):
        change = f"e.value = '{value}'; e.dispatchEvent(new Event('change'));"
        quiet.run(f"(e => {{ {change} }})(document.getElementById('{element}'))")
        seen.add(quiet.run(PIXELS))
    assert len(seen) == 5


def test_light_and_dark_are_both_legible(quiet, report):
    contrast = """(() => {
      const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const back = light(getComputedStyle(document.body).backgroundColor);
      return [...document.querySelectorAll('h1, .lead, .hint, th, td, svg.chart text')].map(e => {
        const style = getComputedStyle(e), own = light(e.tagName === 'text' ? style.fill : style.color);
        return (Math.max(own, back) + 0.05) / (Math.min(own, back) + 0.05); }).reduce((a, b) => Math.min(a, b)); })()"""
    for dark in (False, True):
        quiet.look_at(report, 800, 800, dark=dark)
        # The contrast that accessibility guidelines ask of ordinary text.
        assert quiet.run(contrast) >= 4.5


def test_every_chart_has_something_in_it(quiet, report):
    quiet.look_at(report, 1200, 900)
    for part, many in (("errors", 5), ("altitudes", 5), ("router", 1), ("loss", 1), ("series", 5)):
        drawn = quiet.run(f"document.querySelectorAll('#{part} svg').length")
        marks = quiet.run(f"document.querySelectorAll('#{part} svg path, #{part} svg circle').length")
        assert drawn == many and marks >= many, part


@pytest.mark.slow
def test_the_play_button_moves_time_by_itself(quiet, report):
    quiet.look_at(report, 1200, 900)
    quiet.click("#play")
    quiet.wait_for("document.getElementById('when').textContent.includes('at issue')", 20)
    quiet.click("#play")
    assert quiet.run("document.getElementById('play').textContent") == "Play"


def test_a_calibrated_run_has_a_band_around_each_series_on_a_phone_too(quiet, tmp_path):
    view = reported_view()
    sides = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])
    bands = {name: view.moment.forecast[..., c, None] + sides for c, name in enumerate(STATE_VARIABLES)}
    page = write_page(replace(view, moment=replace(view.moment, bands=bands)), tmp_path / "fan.html")
    quiet.look_at(page, 390, 844, phone=True)
    band = "[...document.querySelectorAll('#series .band')].map(p => p.getAttribute('d'))"
    before = quiet.run(band)
    assert len(before) == 3 * len(STATE_VARIABLES) and not any("NaN" in path for path in before)
    assert "50, 80 and 90 of 100" in quiet.run("document.body.textContent")
    quiet.click("[data-station='7']")
    assert quiet.run(band) != before
    assert quiet.run("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize(("width", "phone"), [(1200, False), (390, True)])
def test_spread_and_chances_are_layers_of_the_map(quiet, tmp_path, width, phone):
    quiet.look_at(write_page(uncertain_view(), tmp_path / "uncertain.html"), width, 844, phone=phone)
    chosen = "const s = document.getElementById('layer'); s.value = layer; s.dispatchEvent(new Event('change'));"
    pick = f"(layer) => {{ {chosen} }}"
    hidden = "document.getElementById('limits').hidden"
    assert quiet.run(hidden)
    forecast = quiet.run(PIXELS)
    quiet.run(f"({pick})('spread')")
    spread = quiet.run(PIXELS)
    # 2.56 standard deviations of 2 K, five times as wide in the north.
    assert spread != forecast and quiet.run("document.getElementById('high').textContent") == "25.6 K"
    quiet.run(f"({pick})('above')")
    assert not quiet.run(hidden) and quiet.run("document.getElementById('limit').value") == "10"
    half = quiet.run(PIXELS)
    limit = "const l = document.getElementById('limit'); l.value = '30'; l.dispatchEvent(new Event('change'));"
    quiet.run(f"(() => {{ {limit} }})()")
    assert len({forecast, spread, half, quiet.run(PIXELS)}) == 4
    assert quiet.run("document.documentElement.scrollWidth <= window.innerWidth")


def test_diagrams_of_calibration_have_a_chart_each(quiet, tmp_path):
    quiet.look_at(write_page(uncertain_view(), tmp_path / "diagrams.html"), 390, 844, phone=True)
    charts = "[...document.querySelectorAll('#coverage svg, #pit svg, #reliability svg')]"
    assert quiet.run(f"{charts}.length") == 6 + 6 + 2
    assert quiet.run(f"{charts}.every(svg => svg.querySelectorAll('path').length >= 2)")
    assert quiet.run("document.querySelector('#uncertainty table').textContent").count("90.0 %") == 6
