"""The source from noisy sensors: both stacks, the diffusivity and the total come back within their uncertainty."""

import pytest

pytestmark = pytest.mark.timeout(600)  # 13 s of CPU, on a machine that may be shared


@pytest.fixture(scope="module")
def source(gallery):
    return gallery("source")


@pytest.fixture(scope="module")
def solved(source):
    places, readings = source.observe(backend="auto")
    return places, readings, *source.assimilate(places, readings, backend="auto")


@pytest.mark.slow
def test_releases_and_diffusivity_are_found_within_their_uncertainty(source, solved):
    _, _, estimate, known = solved
    assert estimate.has_converged
    value, error = estimate.coefficients["kappa"].magnitude, known.coefficients["kappa"].magnitude
    # 4 deviations: the draw of the noise is fixed, and the uncertainty is of first order.
    assert abs(value - source.TRUE_KAPPA) < 4.0 * error < 3.0
    amount, spread = source.total(estimate, known)
    assert abs(amount - sum(source.STACKS.values())) < 2.0 * spread
    release, deviation = estimate.sources["release"][0], known.sources["release"][0]
    truth = source.true_release()
    assert float(((truth - release).abs() < 3.0 * deviation).double().mean()) > 0.98


@pytest.mark.slow
def test_both_stacks_stand_where_the_map_is_highest(source, solved):
    release = solved[2].sources["release"][0].clone()
    for _ in source.STACKS:
        row, column = divmod(int(release.argmax()), source.CELLS)
        assert min(max(abs(row - r), abs(column - c)) for r, c in source.STACKS) <= 2
        release[max(row - 6, 0) : row + 7, max(column - 6, 0) : column + 7] = 0.0


@pytest.mark.slow
def test_the_picture_is_drawn(source, solved, tmp_path):
    assert source.draw(*solved, tmp_path / "source.png").stat().st_size > 10_000


def test_the_sensors_see_the_plume_through_noise(source):
    _, readings = source.observe()
    assert readings.shape == (source.HOURS, source.SENSORS)
    assert float(readings.min()) < 0.0 and float(readings.max()) > 20.0 * source.NOISE
