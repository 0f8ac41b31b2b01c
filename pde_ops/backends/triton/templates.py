"""The fixed parts of a generated Triton module, to be filled in by :mod:`.emit`."""

__all__ = ["HEAD", "SCALING", "SWEEP"]

HEAD = """import triton
import triton.language as tl

REAL = tl.constexpr({real})


@triton.jit
def wrapped(i, n):
    i = tl.where(i < 0, i + n, i)
    i = tl.where(i < 0, i + n, i)
    i = tl.where(i >= n, i - n, i)
    return tl.minimum(tl.maximum(tl.where(i >= n, i - n, i), 0), n - 1)


@triton.jit
def reflected(i, n):
    i = tl.where(i < 0, -1 - i, i)
    i = tl.where(i >= n, 2 * n - 1 - i, i)
    return tl.minimum(tl.maximum(i, 0), n - 1)


@triton.jit
def hyperbolic_tangent(a):
    shrunk = tl.exp(-2.0 * tl.abs(a))
    size = (1.0 - shrunk) / (1.0 + shrunk)
    return tl.where(a < 0, -size, size)

"""

SWEEP = """
@triton.jit(do_not_specialize=["batch", "ny", "nx", "programs"])
def {name}(
    {arguments}, rows, coefficient, factor, step, sums, batch, ny, nx, plane: "i64", programs,
    BLOCK: tl.constexpr, FIRST: tl.constexpr,
):
    program = tl.program_id(0)
    pieces = (nx + BLOCK - 1) // BLOCK
    first = (program % pieces) * BLOCK
    y = (program // pieces) % ny
    b = (program // pieces // ny).to(tl.int64)
    x = first + tl.arange(0, BLOCK)
    live = x < nx
    x = tl.minimum(x, nx - 1)
{body}
"""

SCALING = '''import triton
import triton.language as tl

REAL = tl.constexpr({real})


@triton.jit(do_not_specialize=["pieces"])
def measured(x, rate, parts, numbers, size: "i64", pieces, BLOCK: tl.constexpr):
    """Least and largest value of the state, and largest increment, of a piece of an item; then whether one is NaN."""
    program = tl.program_id(0)
    item = (program // pieces).to(tl.int64)
    at = (program % pieces).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = at < size
    value = tl.load(x + item * size + at, mask=live, other=0.0)
    increment = tl.load(rate + item * size + at, mask=live, other=0.0) * tl.load(numbers).to(REAL)
    to = parts + program.to(tl.int64) * 5
    tl.store(to, tl.min(tl.where(live, value, float("inf")), 0))
    tl.store(to + 1, tl.max(tl.where(live, value, -float("inf")), 0))
    tl.store(to + 2, tl.max(tl.abs(increment), 0))
    tl.store(to + 3, tl.max(tl.where(value != value, 1.0, 0.0).to(REAL), 0))
    tl.store(to + 4, tl.max(tl.where(increment != increment, 1.0, 0.0).to(REAL), 0))


@triton.jit(do_not_specialize=["pieces"])
def noted(parts, notes, numbers, pieces, IS_RANGE: tl.constexpr, WIDTH: tl.constexpr):
    """Share of the increment that is taken, peak increment, and d share / d peak, of one item."""
    item = tl.program_id(0).to(tl.int64)
    low = tl.full((WIDTH,), float("inf"), REAL)
    high = tl.full((WIDTH,), -float("inf"), REAL)
    top = tl.zeros((WIDTH,), REAL)
    bad_x = tl.zeros((WIDTH,), REAL)
    bad_d = tl.zeros((WIDTH,), REAL)
    for start in range(0, pieces, WIDTH):
        piece = start + tl.arange(0, WIDTH)
        live = piece < pieces
        of = parts + (item * pieces + piece) * 5
        low = tl.minimum(low, tl.load(of, mask=live, other=float("inf")))
        high = tl.maximum(high, tl.load(of + 1, mask=live, other=-float("inf")))
        top = tl.maximum(top, tl.load(of + 2, mask=live, other=0.0))
        bad_x = tl.maximum(bad_x, tl.load(of + 3, mask=live, other=0.0))
        bad_d = tl.maximum(bad_d, tl.load(of + 4, mask=live, other=0.0))
    rho = tl.load(numbers + 1).to(REAL)
    nothing = tl.full((), float("nan"), REAL)
    reach = tl.where(tl.max(bad_x, 0) > 0.0, nothing, tl.max(high, 0) - tl.min(low, 0))
    peak = tl.where(tl.max(bad_d, 0) > 0.0, nothing, tl.max(top, 0))
    if IS_RANGE:
        against = peak + tl.load(numbers + 2).to(REAL) * reach + tl.load(numbers + 3).to(REAL)
        share = rho * reach / against
        slope = -share / against
    else:
        beyond = peak > rho * reach
        against = tl.where(beyond, peak, 1.0)
        share = tl.where(beyond, rho * reach / against, 1.0)
        slope = tl.where(beyond, -share / against, 0.0)
    tl.store(notes + item * 3, share)
    tl.store(notes + item * 3 + 1, peak)
    tl.store(notes + item * 3 + 2, slope)


@triton.jit(do_not_specialize=["pieces", "fields"])
def scaled(x, rate, out, notes, gamma, numbers, size: "i64", pieces, fields, BLOCK: tl.constexpr):
    """State plus the scaled increment."""
    program = tl.program_id(0)
    item = (program // pieces).to(tl.int64)
    at = (program % pieces).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = at < size
    factor = tl.load(gamma + item % fields).to(REAL) * tl.load(notes + item * 3)
    increment = tl.load(rate + item * size + at, mask=live, other=0.0) * tl.load(numbers).to(REAL)
    value = tl.load(x + item * size + at, mask=live, other=0.0)
    tl.store(out + item * size + at, value + increment * factor, mask=live)


@triton.jit(do_not_specialize=["pieces"])
def summed(given, rate, parts, notes, numbers, size: "i64", pieces, BLOCK: tl.constexpr):
    """Sum of derivative times increment over a piece of an item, and how many increments are the peak."""
    program = tl.program_id(0)
    item = (program // pieces).to(tl.int64)
    at = (program % pieces).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = at < size
    increment = tl.load(rate + item * size + at, mask=live, other=0.0) * tl.load(numbers).to(REAL)
    seed = tl.load(given + item * size + at, mask=live, other=0.0)
    is_peak = live & (tl.abs(increment) == tl.load(notes + item * 3 + 1))
    to = parts + program.to(tl.int64) * 2
    tl.store(to, tl.sum((seed * increment).to(tl.float64), 0))
    tl.store(to + 1, tl.sum(tl.where(is_peak, 1.0, 0.0).to(tl.float64), 0))


@triton.jit(do_not_specialize=["pieces", "fields"])
def shared(parts, notes, gamma, totals, ties, numbers, pieces, fields, WIDTH: tl.constexpr):
    """Derivative by the factor of one item, and what each increment that is the peak gets of the peak's derivative."""
    item = tl.program_id(0).to(tl.int64)
    total = tl.zeros((WIDTH,), tl.float64)
    count = tl.zeros((WIDTH,), tl.float64)
    for start in range(0, pieces, WIDTH):
        piece = start + tl.arange(0, WIDTH)
        live = piece < pieces
        of = parts + (item * pieces + piece) * 2
        total += tl.load(of, mask=live, other=0.0)
        count += tl.load(of + 1, mask=live, other=0.0)
    whole, many = tl.sum(total, 0), tl.sum(count, 0)
    slope = tl.load(notes + item * 3 + 2).to(tl.float64)
    each = tl.load(numbers) * tl.load(gamma + item % fields) * slope * whole
    tl.store(ties + item, tl.where(many > 0.0, each / tl.where(many > 0.0, many, 1.0), 0.0).to(REAL))
    tl.store(totals + item, tl.load(notes + item * 3).to(tl.float64) * whole)


@triton.jit(do_not_specialize=["pieces", "fields"])
def returned(given, rate, seed, notes, gamma, ties, numbers, size: "i64", pieces, fields, BLOCK: tl.constexpr):
    """Derivative by the tendency."""
    program = tl.program_id(0)
    item = (program // pieces).to(tl.int64)
    at = (program % pieces).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = at < size
    dt = tl.load(numbers).to(REAL)
    increment = tl.load(rate + item * size + at, mask=live, other=0.0) * dt
    peak = tl.load(notes + item * 3 + 1)
    main = dt * tl.load(gamma + item % fields).to(REAL) * tl.load(notes + item * 3)
    tie = tl.load(ties + item)
    value = tl.load(given + item * size + at, mask=live, other=0.0) * main
    value += tl.where(increment == peak, tie, 0.0) - tl.where(increment == -peak, tie, 0.0)
    tl.store(seed + item * size + at, value, mask=live)
'''
