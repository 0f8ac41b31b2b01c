/* The head of the stations, forward and backward.
 *
 *   out = scale . (W3 silu(W2 silu(memory + W1 passing) + b2) + b3)
 *
 * Rows are [sample, lead, station]; `memory` has one for sample and station. A block of rows at a time: what lies
 * between the layers stays in the nearest caches, and only the second layer before its SiLU is kept for the way back.
 *
 * Products are those of `products.c`.
 */
#define GROUPS 4                                             /* samples share sums by group: whatever the threads */

typedef struct {
    const real *memory, *passing, *w1, *w2, *b2, *w3, *b3, *scale;
    long batch, leads, stations, inputs, hidden, outputs;
} Head;
typedef struct { real *memory, *w1, *w2, *b2, *w3, *b3, *scale; } Gradients;

/* What all blocks read: weights in panels, rows of memory padded to whole panels. */
typedef struct {
    long wide;
    real *w1, *w2, *w3, *w2_back, *w3_back, *b2, *b3, *memory;
    char *reserved;
} Shared;
static int share(Shared *s, const Head *k, int back)
{
    const long h = k->hidden, wide = s->wide = WIDE(h), few = WIDE(k->outputs), seen = k->batch * k->stations;
    const long padded = wide == h ? 0 : seen * wide;
    const long all = wide * (k->inputs + h + 1) + few * (h + 1) + (back ? wide * (h + k->outputs) : 0) + padded;
    real *at = reserve(&s->reserved, all);
    if (!s->reserved) return 1;
    memset(at, 0, all * sizeof(real));
    s->w1 = at, at += wide * k->inputs;
    s->w2 = at, at += wide * h;
    s->w3 = at, at += few * h;
    s->b2 = at, at += wide;
    s->b3 = at, at += few;
    pack(s->w1, k->w1, k->inputs, h, 1, k->inputs);
    pack(s->w2, k->w2, h, h, 1, h);
    pack(s->w3, k->w3, h, k->outputs, 1, h);
    memcpy(s->b2, k->b2, h * sizeof(real));
    memcpy(s->b3, k->b3, k->outputs * sizeof(real));
    if (back) {
        s->w2_back = at, at += wide * h;
        s->w3_back = at, at += wide * k->outputs;
        pack(s->w2_back, k->w2, h, h, h, 1);
        pack(s->w3_back, k->w3, k->outputs, h, h, 1);
    }
    s->memory = (real *)k->memory;
    if (padded) copy_rows(s->memory = at, wide, k->memory, h, h, seen);
    return 0;
}
static long row_of_memory(const Head *k, long row)
{
    return row / (k->leads * k->stations) * k->stations + row % k->stations;
}
static void first_layer(const Head *k, const Shared *s, long row, long count, real *z)
{
    const real *starts[BLOCK];
    for (long r = 0; r < count; r++) starts[r] = s->memory + row_of_memory(k, row + r) * s->wide;
    multiply(z, s->wide, k->passing + row * k->inputs, k->inputs, s->w1, k->inputs, s->wide, starts, 0, count);
}

static int forward_rows(const Head *k, const Shared *s, long from, long to, real *before, real *out)
{
    const long wide = s->wide, h = k->hidden, few = WIDE(k->outputs);
    char *reserved;
    real *z = reserve(&reserved, BLOCK * (2 * wide + few));
    if (!reserved) return 1;
    real *silus = z + BLOCK * wide, *last = silus + BLOCK * wide;
    for (long row = from; row < to; row += BLOCK) {
        const long count = to - row < BLOCK ? to - row : BLOCK;
        first_layer(k, s, row, count, z);
        silu(silus, 0, z, count * wide);
        multiply(z, wide, silus, wide, s->w2, h, wide, 0, s->b2, count);
        if (before) copy_rows(before + row * h, h, z, wide, h, count);
        silu(silus, 0, z, count * wide);
        multiply(last, few, silus, wide, s->w3, h, k->outputs <= LANES ? LANES : few, 0, s->b3, count);
        for (long r = 0; r < count; r++)
            for (long o = 0; o < k->outputs; o++)
                out[(row + r) * k->outputs + o] = last[r * few + o] * k->scale[o];
    }
    free(reserved);
    return 0;
}

typedef struct { real *w1, *w2, *b2, *w3; double *b3, *scale; char *reserved; } Sums;
static long values_of(const Head *k, long wide) { return wide * (k->inputs + k->hidden + 1 + k->outputs); }
static int begin_sums(Sums *sums, const Head *k, long wide)
{
    const long all = values_of(k, wide) + 4 * k->outputs;
    real *at = reserve(&sums->reserved, all);
    if (!sums->reserved) return 1;
    memset(at, 0, all * sizeof(real));
    sums->w1 = at, at += wide * k->inputs;
    sums->w2 = at, at += wide * k->hidden;
    sums->b2 = at, at += wide;
    sums->w3 = at, at += wide * k->outputs;
    sums->b3 = (double *)at, sums->scale = sums->b3 + k->outputs;
    return 0;
}

static int backward_rows(const Head *k, const Shared *s, long from, long to, const real *before, const real *seed,
                         real *by_memory, Sums *sums)
{
    const long wide = s->wide, h = k->hidden, few = WIDE(k->outputs), outputs = k->outputs;
    char *reserved;
    real *first = reserve(&reserved, BLOCK * (6 * wide + 2 * few));
    if (!reserved) return 1;
    memset(first, 0, BLOCK * (6 * wide + 2 * few) * sizeof(real));
    real *first_slope = first + BLOCK * wide, *second = first_slope + BLOCK * wide;
    real *second_slope = second + BLOCK * wide, *z = second_slope + BLOCK * wide, *by_z = z + BLOCK * wide;
    real *last = by_z + BLOCK * wide, *by_last = last + BLOCK * few;
    for (long row = from; row < to; row += BLOCK) {
        const long count = to - row < BLOCK ? to - row : BLOCK;
        first_layer(k, s, row, count, z);
        silu(first, first_slope, z, count * wide);
        const real *kept = before + row * h;
        if (wide != h) copy_rows(z, wide, kept, h, h, count), kept = z;
        silu(second, second_slope, kept, count * wide);
        multiply(last, few, second, wide, s->w3, h, outputs <= LANES ? LANES : few, 0, s->b3, count);
        for (long r = 0; r < count; r++)
            for (long o = 0; o < outputs; o++) {
                const real g = seed[(row + r) * outputs + o], scaled = g * k->scale[o];
                by_last[r * few + o] = scaled;
                sums->scale[o] += (double)g * last[r * few + o];
                sums->b3[o] += scaled;
            }
        add_outer(sums->w3, wide, by_last, few, outputs, second, wide, wide, count);
        multiply(by_z, wide, by_last, few, s->w3_back, outputs, wide, 0, 0, count);
        for (long p = 0; p < count * wide; p += LANES) store(by_z + p, load(by_z + p) * load(second_slope + p));
        add_rows(sums->b2, by_z, wide, wide, count);
        add_outer(sums->w2, wide, by_z, wide, h, first, wide, wide, count);
        multiply(z, wide, by_z, wide, s->w2_back, h, wide, 0, 0, count);
        for (long p = 0; p < count * wide; p += LANES) store(z + p, load(z + p) * load(first_slope + p));
        add_outer(sums->w1, wide, k->passing + row * k->inputs, k->inputs, k->inputs, z, wide, wide, count);
        if (by_memory)
            for (long r = 0; r < count; r++) {
                real *at = by_memory + row_of_memory(k, row + r) * h;
                const real *add = z + r * wide;
                long p = 0;
                for (; p + LANES <= h; p += LANES) store(at + p, load(at + p) + load(add + p));
                for (; p < h; p++) at[p] += add[p];
            }
    }
    free(reserved);
    return 0;
}

int head_forward(const int64_t *addresses, const int64_t *sizes, real *before, real *out, int threads)
{
    const real *const *a = (const real *const *)addresses;
    const Head k = {a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7],
                    sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]};
    Shared shared;
    if (share(&shared, &k, 0)) return 1;
    const long rows = k.batch * k.leads * k.stations, blocks = (rows + BLOCK - 1) / BLOCK;
    const long parts = threads < blocks ? threads : blocks;
    int failed = 0;
#pragma omp parallel for num_threads(threads) reduction(|:failed) if (parts > 1)
    for (long n = 0; n < parts; n++) {
        const long from = blocks * n / parts * BLOCK, to = blocks * (n + 1) / parts * BLOCK;
        failed |= forward_rows(&k, &shared, from, to < rows ? to : rows, before, out);
    }
    free(shared.reserved);
    return failed;
}

int head_backward(const int64_t *addresses, const int64_t *sizes, const real *before, const real *seed,
                  const int64_t *gradients, int threads)
{
    const real *const *a = (const real *const *)addresses;
    real *const *to = (real *const *)gradients;
    const Head k = {a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7],
                    sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]};
    const Gradients g = {to[0], to[1], to[2], to[3], to[4], to[5], to[6]};
    Shared shared;
    if (share(&shared, &k, 1)) return 1;
    const long each = k.leads * k.stations, groups = k.batch < GROUPS ? k.batch : GROUPS, wide = shared.wide;
    Sums sums[GROUPS];
    int failed = 0;
    for (long n = 0; n < groups; n++) failed |= begin_sums(&sums[n], &k, wide);
    if (g.memory) memset(g.memory, 0, k.batch * k.stations * k.hidden * sizeof(real));
    if (!failed) {
#pragma omp parallel for num_threads(threads) reduction(|:failed) if (threads > 1 && groups > 1)
        for (long n = 0; n < groups; n++)
            failed |= backward_rows(&k, &shared, k.batch * n / groups * each, k.batch * (n + 1) / groups * each, before,
                                    seed, g.memory, &sums[n]);
        for (long n = 1; n < groups; n++) {
            for (long p = 0; p < values_of(&k, wide); p++) sums[0].w1[p] += sums[n].w1[p];
            for (long o = 0; o < k.outputs; o++)
                sums[0].b3[o] += sums[n].b3[o], sums[0].scale[o] += sums[n].scale[o];
        }
        for (long h = 0; h < k.hidden; h++) {
            for (long p = 0; p < k.inputs; p++) g.w1[h * k.inputs + p] = sums[0].w1[p * wide + h];
            memcpy(g.w2 + h * k.hidden, sums[0].w2 + h * wide, k.hidden * sizeof(real));
        }
        memcpy(g.b2, sums[0].b2, k.hidden * sizeof(real));
        for (long o = 0; o < k.outputs; o++) {
            memcpy(g.w3 + o * k.hidden, sums[0].w3 + o * wide, k.hidden * sizeof(real));
            g.b3[o] = (real)sums[0].b3[o], g.scale[o] = (real)sums[0].scale[o];
        }
    }
    for (long n = 0; n < groups; n++) free(sums[n].reserved);
    free(shared.reserved);
    return failed;
}
