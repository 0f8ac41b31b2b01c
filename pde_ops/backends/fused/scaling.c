/* Scale rules of a range-scaled Euler step, fused: see pde_ops/integrators/scaling.py for what they mean.
 *
 * An item is one channel of one sample: `size` values of the state x, of its tendency and of the result. `notes` keeps,
 * per item, what the way back needs: share of the increment that is taken, peak increment, d share / d peak.
 */
#ifdef _OPENMP
#include <omp.h>
#endif

enum { RANGE = 0, LIMITER = 1 };

typedef struct { real share, peak, slope; } Note;

INLINE real lane_max(vf a) { real m = a[0]; for (int i = 1; i < LANES; i++) m = a[i] > m ? a[i] : m; return m; }
INLINE real lane_min(vf a) { real m = a[0]; for (int i = 1; i < LANES; i++) m = a[i] < m ? a[i] : m; return m; }
INLINE int any(vi m) { for (int i = 0; i < LANES; i++) if (m[i]) return 1; return 0; }

static Note measure(const real *x, const real *rate, long size, real dt, real rho, int rule, real quiet, real tiny)
{
    const long whole = size - size % LANES;
    vf low = bc(INFINITY), high = bc(-INFINITY), top = {0};
    vi broken_x = {0}, broken_d = {0};
    for (long i = 0; i < whole; i += LANES) {
        const vf a = load(x + i), d = load(rate + i) * dt;
        low = vmin(a, low); high = vmax(a, high); top = vmax(vabs(d), top);
        broken_x |= a != a; broken_d |= d != d;
    }
    real least = lane_min(low), most = lane_max(high), peak = lane_max(top);
    int bad_x = any(broken_x), bad_d = any(broken_d);
    for (long i = whole; i < size; i++) {
        const real a = x[i], d = rate[i] * dt, size_d = d < 0 ? -d : d;
        least = a < least ? a : least; most = a > most ? a : most; peak = size_d > peak ? size_d : peak;
        bad_x |= a != a; bad_d |= d != d;
    }
    const real reach = bad_x ? (real)NAN : most - least;
    if (bad_d) peak = (real)NAN;
    Note note = {1, peak, 0};
    if (rule == RANGE) {
        const real against = peak + quiet * reach + tiny;
        note.share = rho * reach / against;
        note.slope = -note.share / against;
    } else if (peak > rho * reach) {
        note.share = rho * reach / peak;
        note.slope = -note.share / peak;
    }
    return note;
}

static void forward_item(const real *x, const real *rate, real *out, long size, real dt, real gamma, Note note)
{
    const long whole = size - size % LANES;
    const real factor = gamma * note.share;
    for (long i = 0; i < whole; i += LANES) store(out + i, load(x + i) + load(rate + i) * dt * factor);
    for (long i = whole; i < size; i++) out[i] = x[i] + rate[i] * dt * factor;
}

static double backward_item(const real *given, const real *rate, real *seed, long size, real dt, real gamma, Note note)
{
    const long whole = size - size % LANES, block = 64 * LANES;
    double total = 0, ties = 0;
    for (long start = 0; start < whole; start += block) {      /* float within a block, double across blocks */
        vf sum = {0}; vi count = {0};
        const long stop = start + block < whole ? start + block : whole;
        for (long i = start; i < stop; i += LANES) {
            const vf d = load(rate + i) * dt;
            sum += load(given + i) * d;
            count -= vabs(d) == note.peak;
        }
        total += vsum(sum);
        for (int i = 0; i < LANES; i++) ties += (double)count[i];
    }
    for (long i = whole; i < size; i++) {
        const real d = rate[i] * dt;
        total += (double)(given[i] * d);
        ties += (d < 0 ? -d : d) == note.peak;
    }
    /* The peak's share of the derivative is split evenly among ties, as torch.amax does. */
    const real main = dt * gamma * note.share, peak = note.peak;
    const real tie = ties > 0 ? (real)(dt * gamma * note.slope * total / ties) : 0;
    for (long i = 0; i < whole; i += LANES) {
        const vf d = load(rate + i) * dt;
        store(seed + i, load(given + i) * main + (vand(bc(tie), d == peak) - vand(bc(tie), d == -peak)));
    }
    for (long i = whole; i < size; i++) {
        const real d = rate[i] * dt;
        seed[i] = given[i] * main + ((d == peak ? tie : 0) - (d == -peak ? tie : 0));
    }
    return (double)note.share * total;
}

void scale_forward(const real *x, const real *rate, real *out, long batch, long fields, long size, double dt,
                   const double *gamma, double rho, int rule, double quiet, double tiny, Note *notes, int threads)
{
#ifdef _OPENMP
    #pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
#endif
    for (long item = 0; item < batch * fields; item++) {
        const long at = item * size;
        notes[item] = measure(x + at, rate + at, size, (real)dt, (real)rho, rule, (real)quiet, (real)tiny);
        forward_item(x + at, rate + at, out + at, size, (real)dt, (real)gamma[item % fields], notes[item]);
    }
    (void)threads;
}

void scale_backward(const real *given, const real *rate, real *seed, long batch, long fields, long size, double dt,
                    const double *gamma, const Note *notes, double *totals, int threads)
{
#ifdef _OPENMP
    #pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
#endif
    for (long item = 0; item < batch * fields; item++) {
        const long at = item * size;
        totals[item] = backward_item(given + at, rate + at, seed + at, size, (real)dt, (real)gamma[item % fields],
                                     notes[item]);
    }
    (void)threads;
}
