/* A network of two 3 x 3 convolutions with a SiLU between them, border replicated, forward and backward.
 *
 *   out = W2 * silu((W1 * [fields, more, sun] + each + lasting) . factor + shift) + bias
 *
 * `each` is a number for sample and hidden feature, `lasting`, `factor` and `shift` for hidden feature and cell; `more`,
 * `sun`, `factor` and `shift` may be null. A sample at a time: its planes stay in the nearest cache.
 *
 * A plane has a border of one cell and rows of W = nx + 2 values. Value p = y W + x of a result is the sum over taps of
 * values p + i W + j of a plane, so that rows need no ends: the two results behind each row mean nothing, and are
 * overwritten by the border, or set to zero on the way back.
 *
 * Defined before this point, after the vector types: HIDDEN, OUTPUTS, CHANNELS (of `fields` and of `more`).
 */
#ifdef _OPENMP
#include <omp.h>
#endif

#if VECTOR_BYTES == 64
#define BLOCK 16                                             /* hidden features whose sums stay in registers */
#define WIDE(outputs) ((outputs) <= 6 ? 4 : 2)               /* vectors of cells for so many sums */
#else
#define BLOCK 8
#define WIDE(outputs) ((outputs) <= 5 ? 2 : 1)
#endif
#define HALF (BLOCK / 2)
#define PADDED ((HIDDEN + BLOCK - 1) / BLOCK * BLOCK)
#define TAPS 9
#define GROUPS 2                                             /* samples share sums by group: whatever the threads */
#define UNROLL _Pragma("GCC unroll 16")
#define UP(n) (((n) + LANES - 1) / LANES * LANES)

typedef struct {
    long ny, nx, width, values, plane, margin, full, inputs; /* see `sizes_of` */
} Sizes;
typedef struct {
    const real *fields, *more, *sun, *w1, *each, *lasting, *factor, *shift, *w2, *bias;
    long batch, ny, nx;
} Inputs;
typedef struct { real *fields, *more, *w1, *each, *lasting, *factor, *shift, *w2, *bias; } Gradients;
static Sizes sizes_of(const Inputs *k)
{
    const long width = k->nx + 2, values = UP(k->ny * width), margin = UP(2 * width + 2);
    const long full = UP((k->ny + 2) * width);
    return (Sizes){k->ny, k->nx, width, values, values + margin, margin, full,
                   CHANNELS * (k->more ? 2 : 1) + (k->sun ? 1 : 0)};
}

/* Copy a field to a plane and replicate its border. */
static void close_border(real *plane, const Sizes *s)
{
    for (long y = 1; y <= s->ny; y++) {
        real *row = plane + y * s->width;
        row[0] = row[1];
        row[s->nx + 1] = row[s->nx];
    }
    memcpy(plane, plane + s->width, s->width * sizeof(real));
    memcpy(plane + (s->ny + 1) * s->width, plane + s->ny * s->width, s->width * sizeof(real));
}
static void take_in(real *plane, const real *field, const Sizes *s)
{
    for (long y = 0; y < s->ny; y++) memcpy(plane + (y + 1) * s->width + 1, field + y * s->nx, s->nx * sizeof(real));
    close_border(plane, s);
}
/* Add the derivatives by a border to the cells that it was replicated from. */
static void fold_border(real *plane, const Sizes *s)
{
    const long w = s->width;
    for (long x = 0; x < w; x++) {
        plane[w + x] += plane[x];
        plane[s->ny * w + x] += plane[(s->ny + 1) * w + x];
    }
    for (long y = 1; y <= s->ny; y++) {
        plane[y * w + 1] += plane[y * w];
        plane[y * w + s->nx] += plane[y * w + s->nx + 1];
    }
}
static void take_all(real *in, const Inputs *k, long b, const Sizes *s)
{
    const long cells = s->ny * s->nx;
    for (long c = 0; c < CHANNELS; c++, in += s->plane) take_in(in, k->fields + (b * CHANNELS + c) * cells, s);
    if (k->more)
        for (long c = 0; c < CHANNELS; c++, in += s->plane) take_in(in, k->more + (b * CHANNELS + c) * cells, s);
    if (k->sun) take_in(in, k->sun + b * cells, s);
}
/* Spread [hidden, cell] to rows of `width`; zeros behind them. */
static void widen(real *to, const real *from, const Sizes *s)
{
    for (long h = 0; h < HIDDEN; h++)
        for (long y = 0; y < s->ny; y++)
            memcpy(to + h * s->values + y * s->width, from + (h * s->ny + y) * s->nx, s->nx * sizeof(real));
}
static void narrow(real *to, const real *from, const Sizes *s)
{
    for (long h = 0; h < HIDDEN; h++)
        for (long y = 0; y < s->ny; y++) {
            const real *row = from + h * s->values + y * s->width;
            for (long x = 0; x < s->nx; x++) to[(h * s->ny + y) * s->nx + x] += row[x];
        }
}

/* Sums over taps of `count` planes for BLOCK features, weights [plane, tap, PADDED]; `sign` -1 turns the taps round. */
INLINE void many_of_few(vf *acc, const real *planes, long stride, long count, const real *weights, long width, int sign)
{
    for (long c = 0; c < count; c++, planes += stride)
        for (long i = 0; i < 3; i++)
            for (long j = 0; j < 3; j++, weights += PADDED) {
                const vf x = load(planes + sign * (i * width + j));
                UNROLL for (int h = 0; h < BLOCK; h++) acc[h] += x * weights[h];
            }
}
/* Sums over taps of PADDED planes for `outputs` results and `n` vectors, weights [plane, tap, outputs]. */
INLINE void few_of_many(vf *acc, const real *planes, long stride, const real *weights, long width, int sign,
                        const int outputs, const int n)
{
    for (long h = 0; h < HIDDEN; h++, planes += stride)
        for (long i = 0; i < 3; i++)
            for (long j = 0; j < 3; j++, weights += outputs) {
                const real *at = planes + sign * (i * width + j);
                UNROLL for (int v = 0; v < n; v++) {
                    const vf x = load(at + v * LANES);
                    UNROLL for (int o = 0; o < outputs; o++) acc[v * outputs + o] += x * weights[o];
                }
            }
}
/* Results of `few_of_many` for a whole plane. */
INLINE void few_everywhere(real *to, long to_stride, const real *planes, long stride, const real *weights,
                           const real *bias, const Sizes *s, long count, int sign, const int outputs)
{
    const int wide = WIDE(outputs);
    long p = 0;
    for (; p + wide * LANES <= count; p += wide * LANES) {
        vf acc[4 * 8] = {{0}};
        few_of_many(acc, planes + p, stride, weights, s->width, sign, outputs, wide);
        UNROLL for (int v = 0; v < wide; v++)
            UNROLL for (int o = 0; o < outputs; o++)
                store(to + o * to_stride + p + v * LANES, acc[v * outputs + o] + (bias ? bias[o] : 0));
    }
    for (; p < count; p += LANES) {
        vf acc[8] = {{0}};
        few_of_many(acc, planes + p, stride, weights, s->width, sign, outputs, 1);
        UNROLL for (int o = 0; o < outputs; o++) store(to + o * to_stride + p, acc[o] + (bias ? bias[o] : 0));
    }
}

/* [hidden, input, tap] to [input, tap, PADDED]; [output, hidden, tap] to [hidden, tap, output], and for the way back. */
static void pack_first(real *to, const real *w1, long inputs)
{
    for (long k = 0; k < inputs * TAPS; k++)
        for (long h = 0; h < PADDED; h++) to[k * PADDED + h] = h < HIDDEN ? w1[h * inputs * TAPS + k] : 0;
}
static void pack_last(real *to, const real *w2)
{
    for (long k = 0; k < HIDDEN * TAPS; k++)
        for (long o = 0; o < OUTPUTS; o++) to[k * OUTPUTS + o] = w2[o * HIDDEN * TAPS + k];
}

/* Work space. The last of each kind is kept for the next call: fresh memory costs a fault a page, as much as the sums. */
enum { SHARED, SUMS, SCRATCH = SUMS + GROUPS, SLOTS };
static char *kept[SLOTS];
static real *borrow(char **memory, int slot, long count)
{
    const size_t needed = count * sizeof(real) + 128;
    char *there = __atomic_exchange_n(&kept[slot], 0, __ATOMIC_ACQ_REL);
    if (there && *(size_t *)there < needed) free(there), there = 0;
    if (!there && (there = malloc(needed))) *(size_t *)there = needed;
    *memory = there;
    return (real *)(((uintptr_t)there + 64 + 63) & ~(uintptr_t)63);
}
static void give_back(char *memory, int slot) { free(__atomic_exchange_n(&kept[slot], memory, __ATOMIC_ACQ_REL)); }
static void clear(real *p, long count) { memset(p, 0, count * sizeof(real)); }

typedef struct { Sizes s; real *w1, *w2, *w1_back, *w2_back, *lasting, *factor, *shift; char *memory; } Shared;

static int share(Shared *shared, const Inputs *k, int back)
{
    const Sizes s = shared->s = sizes_of(k);
    const long first = UP(s.inputs * TAPS * PADDED), last = UP(HIDDEN * TAPS * OUTPUTS), wide = PADDED * s.values;
    const long turned = UP(HIDDEN * TAPS * CHANNELS), spread = UP(OUTPUTS * TAPS * PADDED);
    const long all = first + last + 2 * turned + spread + 3 * wide;
    real *at = borrow(&shared->memory, SHARED, all);
    if (!shared->memory) return 1;
    clear(at, all);
    shared->w1 = at, at += first;
    shared->w2 = at, at += last;
    shared->w1_back = at, at += 2 * turned;
    shared->w2_back = at, at += spread;
    shared->lasting = at, shared->factor = at + wide, shared->shift = at + 2 * wide;
    if (back) {
        for (long g = 0; g < (k->more ? 2 : 1); g++)
            for (long h = 0; h < HIDDEN; h++)
                for (long t = 0; t < TAPS; t++)
                    for (long c = 0; c < CHANNELS; c++)
                        shared->w1_back[g * turned + (h * TAPS + t) * CHANNELS + c] =
                            k->w1[(h * s.inputs + g * CHANNELS + c) * TAPS + t];
        for (long o = 0; o < OUTPUTS; o++)
            for (long t = 0; t < TAPS; t++)
                for (long h = 0; h < HIDDEN; h++)
                    shared->w2_back[(o * TAPS + t) * PADDED + h] = k->w2[(o * HIDDEN + h) * TAPS + t];
    } else {
        pack_first(shared->w1, k->w1, s.inputs);
        pack_last(shared->w2, k->w2);
        widen(shared->lasting, k->lasting, &s);
    }
    if (k->factor) widen(shared->factor, k->factor, &s);
    if (k->shift) widen(shared->shift, k->shift, &s);
    return 0;
}

INLINE vf raised(const Inputs *k, const Shared *shared, long h, long p, vf before)
{
    if (k->factor) before = before * load(shared->factor + h * shared->s.values + p);
    if (k->shift) before = before + load(shared->shift + h * shared->s.values + p);
    return before;
}

static int forward_group(const Inputs *k, const Shared *shared, long from, long to, real *before, real *out)
{
    const Sizes s = shared->s;
    char *memory;
    real *in = borrow(&memory, SCRATCH, s.inputs * s.plane + PADDED * s.plane + OUTPUTS * s.values);
    if (!memory) return 1;
    clear(in, (s.inputs + PADDED) * s.plane);                /* what lies behind a plane is read, and counts for nothing */
    real *hidden = in + s.inputs * s.plane, *wide = hidden + PADDED * s.plane;
    for (long b = from; b < to; b++) {
        take_all(in, k, b, &s);
        for (long p = 0; p < s.values; p += LANES)
            for (long h0 = 0; h0 < PADDED; h0 += BLOCK) {
                vf acc[BLOCK];
                UNROLL for (int h = 0; h < BLOCK; h++) acc[h] = load(shared->lasting + (h0 + h) * s.values + p);
                many_of_few(acc, in + p, s.plane, s.inputs, shared->w1 + h0, s.width, 1);
                for (long h = h0; h < h0 + BLOCK && h < HIDDEN; h++) {
                    const vf sum = acc[h - h0] + k->each[b * HIDDEN + h];
                    if (before) store(before + (b * HIDDEN + h) * s.values + p, sum);
                    const vf z = raised(k, shared, h, p, sum);
                    store(hidden + h * s.plane + s.width + 1 + p, z / (1 + vexp(-z)));
                }
            }
        for (long h = 0; h < HIDDEN; h++) close_border(hidden + h * s.plane, &s);
        few_everywhere(wide, s.values, hidden, s.plane, shared->w2, k->bias, &s, s.values, 1, OUTPUTS);
        for (long o = 0; o < OUTPUTS; o++)
            for (long y = 0; y < s.ny; y++)
                memcpy(out + ((b * OUTPUTS + o) * s.ny + y) * s.nx, wide + o * s.values + y * s.width,
                       s.nx * sizeof(real));
    }
    give_back(memory, SCRATCH);
    return 0;
}

/* Add derivatives by weights: those of `count` planes and HIDDEN seeds. */
static void by_first(vf *sums, const real *planes, const real *seeds, long seed_stride, const Sizes *s)
{
    for (long c = 0; c < s->inputs; c++)
        for (long i = 0; i < 3; i++, sums += 3 * PADDED) {
            const real *at = planes + c * s->plane + i * s->width;
            for (long h0 = 0; h0 < PADDED; h0 += HALF) {
                const real *seed = seeds + h0 * seed_stride;
                vf acc[3 * HALF] = {{0}};
                for (long p = 0; p < s->values; p += LANES) {
                    const vf x0 = load(at + p), x1 = load(at + p + 1), x2 = load(at + p + 2);
                    UNROLL for (int h = 0; h < HALF; h++) {
                        vf g = load(seed + h * seed_stride + p);
                        IN_REGISTER(g);
                        acc[h] += x0 * g, acc[HALF + h] += x1 * g, acc[2 * HALF + h] += x2 * g;
                    }
                }
                UNROLL for (int j = 0; j < 3; j++)
                    UNROLL for (int h = 0; h < HALF; h++) sums[j * PADDED + h0 + h] += acc[j * HALF + h];
            }
        }
}
static void by_last(vf *sums, const real *hidden, const real *seeds, long seed_stride, const Sizes *s)
{
    for (long h = 0; h < HIDDEN; h++)
        for (long i = 0; i < 3; i++, sums += 3 * OUTPUTS) {
            const real *at = hidden + h * s->plane + i * s->width;
            vf acc[3 * OUTPUTS] = {{0}};
            for (long p = 0; p < s->values; p += LANES) {
                const vf x0 = load(at + p), x1 = load(at + p + 1), x2 = load(at + p + 2);
                UNROLL for (int o = 0; o < OUTPUTS; o++) {
                    vf g = load(seeds + o * seed_stride + p);
                    IN_REGISTER(g);
                    acc[o] += x0 * g, acc[OUTPUTS + o] += x1 * g, acc[2 * OUTPUTS + o] += x2 * g;
                }
            }
            UNROLL for (int n = 0; n < 3 * OUTPUTS; n++) sums[n] += acc[n];
        }
}

typedef struct { real *lasting, *factor; vf *w1, *w2; double *bias; char *memory; } Sums;

static int backward_group(const Inputs *k, const Shared *shared, long from, long to, const real *before,
                          const real *seed, Gradients *g, Sums *sums)
{
    const Sizes s = shared->s;
    const long pitch = s.margin + s.full, cells = s.ny * s.nx;   /* of seeds: zeros before and behind */
    const long counts[] = {s.inputs * s.plane, PADDED * s.plane, OUTPUTS * pitch, PADDED * pitch, PADDED * s.full,
                           PADDED * s.values, CHANNELS * s.full};
    char *memory;
    long all = 0;
    for (int n = 0; n < 7; n++) all += counts[n];
    real *in = borrow(&memory, SCRATCH, all);
    if (!memory) return 1;
    clear(in, counts[0] + counts[1] + counts[2] + counts[3]);
    real *hidden = in + counts[0], *seeds = hidden + counts[1], *inner = seeds + counts[2];
    real *by_hidden = inner + counts[3], *slope = by_hidden + counts[4], *by_in = slope + counts[5];
    for (long b = from; b < to; b++) {
        take_all(in, k, b, &s);
        for (long h = 0; h < HIDDEN; h++)
            for (long p = 0; p < s.values; p += LANES) {
                const vf z = raised(k, shared, h, p, load(before + (b * HIDDEN + h) * s.values + p));
                const vf share = 1 / (1 + vexp(-z));
                store(hidden + h * s.plane + s.width + 1 + p, z * share);
                store(slope + h * s.values + p, share * (1 + z * (1 - share)));
            }
        for (long h = 0; h < HIDDEN; h++) close_border(hidden + h * s.plane, &s);
        for (long o = 0; o < OUTPUTS; o++) {
            double whole = 0;
            for (long y = 0; y < s.ny; y++) {
                const real *row = seed + ((b * OUTPUTS + o) * s.ny + y) * s.nx;
                memcpy(seeds + o * pitch + s.margin + y * s.width, row, s.nx * sizeof(real));
                for (long x = 0; x < s.nx; x++) whole += row[x];
            }
            sums->bias[o] += whole;
        }
        by_last(sums->w2, hidden, seeds + s.margin, pitch, &s);
        for (long p = 0; p < s.full; p += LANES)
            for (long h0 = 0; h0 < PADDED; h0 += BLOCK) {
                vf acc[BLOCK] = {{0}};
                many_of_few(acc, seeds + s.margin + p, pitch, OUTPUTS, shared->w2_back + h0, s.width, -1);
                UNROLL for (int h = 0; h < BLOCK; h++) store(by_hidden + (h0 + h) * s.full + p, acc[h]);
            }
        for (long h = 0; h < HIDDEN; h++) {
            real *row = by_hidden + h * s.full, *d = inner + h * pitch + s.margin;
            fold_border(row, &s);
            row += s.width + 1;
            for (long p = 0; p < s.values; p += LANES) store(d + p, load(slope + h * s.values + p) * load(row + p));
            for (long y = 0; y < s.ny; y++) d[y * s.width + s.nx] = d[y * s.width + s.nx + 1] = 0;
            for (long p = s.ny * s.width; p < s.values; p++) d[p] = 0;
            real *by = sums->lasting + h * s.values;             /* by `shift` where there is a factor */
            for (long p = 0; p < s.values; p += LANES) store(by + p, load(by + p) + load(d + p));
            if (k->factor) {
                real *by_factor = sums->factor + h * s.values;
                const real *kept = before + (b * HIDDEN + h) * s.values, *factor = shared->factor + h * s.values;
                for (long p = 0; p < s.values; p += LANES) {
                    const vf dz = load(d + p);
                    store(by_factor + p, load(by_factor + p) + dz * load(kept + p));
                    store(d + p, dz * load(factor + p));
                }
                real *by_plain = sums->factor + (PADDED + h) * s.values;
                for (long p = 0; p < s.values; p += LANES) store(by_plain + p, load(by_plain + p) + load(d + p));
            }
            vf whole = {0};
            for (long p = 0; p < s.values; p += LANES) whole += load(d + p);
            g->each[b * HIDDEN + h] = (real)vsum(whole);
        }
        by_first(sums->w1, in, inner + s.margin, pitch, &s);
        for (int n = 0; n < (k->more ? 2 : 1); n++) {
            real *to = n ? g->more : g->fields;
            if (!to) continue;
            few_everywhere(by_in, s.full, inner + s.margin, pitch, shared->w1_back + n * UP(HIDDEN * TAPS * CHANNELS),
                           0, &s, s.full, -1, CHANNELS);
            for (long c = 0; c < CHANNELS; c++) {
                fold_border(by_in + c * s.full, &s);
                for (long y = 0; y < s.ny; y++)
                    memcpy(to + (b * CHANNELS + c) * cells + y * s.nx, by_in + c * s.full + (y + 1) * s.width + 1,
                           s.nx * sizeof(real));
            }
        }
    }
    give_back(memory, SCRATCH);
    return 0;
}

/* Values that `before` keeps for a sample and hidden feature. */
long network_values(long ny, long nx) { return UP(ny * (nx + 2)); }

int network_forward(const int64_t *addresses, long batch, long ny, long nx, real *before, real *out, int threads)
{
    const real *const *a = (const real *const *)addresses;
    const Inputs k = {a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], batch, ny, nx};
    Shared shared;
    if (share(&shared, &k, 0)) return 1;
    const long groups = batch < GROUPS ? batch : GROUPS;
    int failed = 0;
#pragma omp parallel for num_threads(threads) reduction(|:failed) if (threads > 1 && groups > 1)
    for (long n = 0; n < groups; n++)
        failed |= forward_group(&k, &shared, batch * n / groups, batch * (n + 1) / groups, before, out);
    give_back(shared.memory, SHARED);
    return failed;
}

int network_backward(const int64_t *addresses, long batch, long ny, long nx, const real *before, const real *seed,
                     const int64_t *gradients, int threads)
{
    const real *const *a = (const real *const *)addresses;
    real *const *to = (real *const *)gradients;
    const Inputs k = {a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], batch, ny, nx};
    Gradients g = {to[0], to[1], to[2], to[3], to[4], to[5], to[6], to[7], to[8]};
    Shared shared;
    if (share(&shared, &k, 1)) return 1;
    const Sizes s = shared.s;
    const long groups = batch < GROUPS ? batch : GROUPS;
    const long first = s.inputs * TAPS * PADDED, last = HIDDEN * TAPS * OUTPUTS;
    Sums sums[GROUPS];
    int failed = 0;
    for (long n = 0; n < groups; n++) {
        const long all = 3 * PADDED * s.values + (first + last) * LANES + 2 * OUTPUTS;
        real *at = borrow(&sums[n].memory, SUMS + n, all);
        if (sums[n].memory) clear(at, all);
        else failed = 1;
        sums[n].w1 = (vf *)at, sums[n].w2 = sums[n].w1 + first;
        sums[n].lasting = at + (first + last) * LANES;
        sums[n].factor = sums[n].lasting + PADDED * s.values;
        sums[n].bias = (double *)(sums[n].factor + 2 * PADDED * s.values);
    }
    if (!failed) {
#pragma omp parallel for num_threads(threads) reduction(|:failed) if (threads > 1 && groups > 1)
        for (long n = 0; n < groups; n++)
            failed |= backward_group(&k, &shared, batch * n / groups, batch * (n + 1) / groups, before, seed, &g,
                                     &sums[n]);
        memset(g.lasting, 0, HIDDEN * ny * nx * sizeof(real));
        if (k.factor) memset(g.factor, 0, HIDDEN * ny * nx * sizeof(real)), memset(g.shift, 0, HIDDEN * ny * nx * sizeof(real));
        for (long n = 0; n < groups; n++) {
            narrow(k.factor ? g.shift : g.lasting, sums[n].lasting, &s);
            if (k.factor) {
                narrow(g.factor, sums[n].factor, &s);
                narrow(g.lasting, sums[n].factor + PADDED * s.values, &s);
            }
        }
        for (long h = 0; h < HIDDEN; h++)
            for (long t = 0; t < s.inputs * TAPS; t++) {
                vf all = sums[0].w1[t * PADDED + h];
                for (long n = 1; n < groups; n++) all += sums[n].w1[t * PADDED + h];
                g.w1[h * s.inputs * TAPS + t] = (real)vsum(all);
            }
        for (long o = 0; o < OUTPUTS; o++) {
            double whole = 0;
            for (long n = 0; n < groups; n++) whole += sums[n].bias[o];
            g.bias[o] = (real)whole;
            for (long t = 0; t < HIDDEN * TAPS; t++) {
                vf all = sums[0].w2[t * OUTPUTS + o];
                for (long n = 1; n < groups; n++) all += sums[n].w2[t * OUTPUTS + o];
                g.w2[o * HIDDEN * TAPS + t] = (real)vsum(all);
            }
        }
    }
    for (long n = 0; n < groups; n++) give_back(sums[n].memory, SUMS + n);
    give_back(shared.memory, SHARED);
    return failed;
}
