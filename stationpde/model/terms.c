/* What drives the equations beside the closure, and with it, forward and backward; and the fields in SI.
 *
 *   added_o = f_o tanh(S_o) + lasting_o + sum_i Q_oi radiation_i + sum_d G_od difference_d
 *   decay_o = passing_o + sum_i L_oi clamp(regime_i)
 *   state_c = scale_c field_c + centre_c
 *
 * Differences are slopes and curvatures over RADII distances with a replicated border; see `terms_kernel.py`. Samples lie
 * side by side, value by value, so that rows are long and a neighbour eastwards is a group of samples away. Inputs are
 * [sample, channel, y, x]; the three results, and derivatives by them, lie as a march takes them: [group, channel, y,
 * x and sample], rows padded to LAID values. With one sample a group that is the same, without padding.
 *
 * Defined before this point, after the vector types: RADII.
 */
#define FIELDS 5
#define KINDS 3                                              /* slope eastwards, slope northwards, curvature */
#define DIFFERENCES (RADII * KINDS * FIELDS)
#define MIXED 5                                              /* inputs of radiation, and of the regime */
#define UNROLL _Pragma("GCC unroll 16")
#define UP(n) (((n) + LANES - 1) / LANES * LANES)
#define LAID(row, side) ((side) == 1 ? (row) : ((row) + 15) / 16 * 16)
enum { EASTWARD, NORTHWARD, CURVED };

typedef struct {
    const real *fields, *closure, *factor, *lasting, *light, *radiation, *around, *regime, *passing, *stretch, *turn;
    const real *scale, *centre;
} Inputs;
typedef struct { real *added, *decay, *state; } Results;
typedef struct { real *fields, *closure, *factor, *lasting, *radiation, *around, *regime, *passing; } Gradients;
typedef struct { long batch, ny, nx, side; const int64_t *radii; long middle; real largest; } Sizes;
/* A group of samples: the first, how many, values of a row, the same in whole vectors, ghosts beside it, its pitch. */
typedef struct { long first, count, row, wide, ghosts, pitch; } Group;

static Group group_of(const Sizes *s, long first)
{
    const long count = s->side;
    const long row = s->nx * count, ghosts = s->radii[RADII - 1] * count;
    return (Group){first, count, row, UP(row), ghosts, UP(2 * ghosts + row + LANES)};
}
INLINE long inside(long y, long ny) { return y < 0 ? 0 : y >= ny ? ny - 1 : y; }

/* Interleave one row of a channel; zeros behind it. */
static void gather(real *to, const real *from, long channels, long channel, long y, const Sizes *s, const Group *g)
{
    const long plane = s->ny * s->nx;
    for (long b = 0; b < g->count; b++) {
        const real *row = from + ((g->first + b) * channels + channel) * plane + y * s->nx;
        for (long x = 0; x < s->nx; x++) to[x * g->count + b] = row[x];
    }
    for (long i = g->row; i < g->wide; i++) to[i] = 0;
}
static void scatter(real *to, const real *from, long channels, long channel, long y, const Sizes *s, const Group *g)
{
    const long plane = s->ny * s->nx;
    for (long b = 0; b < g->count; b++) {
        real *row = to + ((g->first + b) * channels + channel) * plane + y * s->nx;
        for (long x = 0; x < s->nx; x++) row[x] = from[x * g->count + b];
    }
}
/* One row of what is laid out: place it, or a copy with zeros behind it. */
INLINE long laid_out(long c, long y, const Sizes *s, const Group *g)
{
    return ((g->first / s->side * FIELDS + c) * s->ny + y) * LAID(g->row, s->side);
}
static void put_row(real *all, const real *row, long c, long y, const Sizes *s, const Group *g)
{
    memcpy(all + laid_out(c, y, s, g), row, g->row * sizeof(real));
}
static void take_row(real *row, const real *all, long c, long y, const Sizes *s, const Group *g)
{
    memcpy(row, all + laid_out(c, y, s, g), g->row * sizeof(real));
    for (long i = g->row; i < g->wide; i++) row[i] = 0;
}
/* Take in all fields of a group, with ghosts to the west and east, and write them in SI. */
static void take_in(real *in, const Inputs *k, real *state, const Sizes *s, const Group *g)
{
    for (long c = 0; c < FIELDS; c++)
        for (long y = 0; y < s->ny; y++, in += g->pitch) {
            real *row = in + g->ghosts;
            gather(row, k->fields, FIELDS, c, y, s, g);
            if (state) {
                real *to = state + laid_out(c, y, s, g);
                const real scale = k->scale[c], centre = k->centre[c];
                for (long i = 0; i < g->row; i++) to[i] = row[i] * scale + centre;
                for (long i = g->row; i < LAID(g->row, s->side); i++) to[i] = 0;
            }
            for (long i = 0; i < g->ghosts; i++) {
                in[i] = row[i % g->count];
                row[g->row + i] = row[g->row - g->count + i % g->count];
            }
        }
}

/* Five values of a difference: of the cell, and of its neighbours. */
typedef struct { const real *here, *north, *south; long away; real half, square, turn; } Stencil;
INLINE Stencil stencil_of(const real *in, const Inputs *k, const Sizes *s, const Group *g, long r, long c, long y)
{
    const real *plane = in + c * s->ny * g->pitch + g->ghosts;
    const long radius = s->radii[r];
    return (Stencil){plane + y * g->pitch, plane + inside(y + radius, s->ny) * g->pitch,
                     plane + inside(y - radius, s->ny) * g->pitch, radius * g->count,
                     (real)0.5 * k->stretch[y], k->stretch[s->ny + y], k->turn[r * s->ny + y]};
}
INLINE void differ(vf *d, const Stencil *t, long p)
{
    const vf here = load(t->here + p), east = load(t->here + p + t->away), west = load(t->here + p - t->away);
    const vf north = load(t->north + p), south = load(t->south + p), across = north - south;
    d[EASTWARD] = t->half * (east - west);
    d[NORTHWARD] = (real)0.5 * across;
    d[CURVED] = t->square * (east + west - 2 * here) + (north + south - 2 * here) - t->turn * across;
}
/* Radiation's inputs: warmth and humidity by day, by night, and the wind speed by night. */
INLINE vf radiated(vf *q, const real *in, const real *light, const Sizes *s, const Group *g, long y, long p)
{
    const long plane = s->ny * g->pitch, at = y * g->pitch + g->ghosts + p;
    const vf u = load(in + at), v = load(in + plane + at), theta = load(in + 3 * plane + at);
    const vf humid = load(in + 4 * plane + at), day = load(light + p), night = load(light + g->wide + p);
    const vf speed = vsqrt(u * u + v * v + (real)1e-6);
    q[0] = day * theta, q[1] = day * humid, q[2] = night * theta, q[3] = night * humid, q[4] = night * speed;
    return speed;
}
/* Wind, slopes of the pressure over the middle radius, dryness. */
INLINE void regime_of(vf *m, const real *in, const Stencil *pressure, const Sizes *s, const Group *g, long y, long p)
{
    const long plane = s->ny * g->pitch, at = y * g->pitch + g->ghosts + p;
    vf d[KINDS];
    differ(d, pressure, p);
    m[0] = load(in + at), m[1] = load(in + plane + at), m[2] = d[EASTWARD], m[3] = d[NORTHWARD];
    m[4] = load(in + 3 * plane + at) - load(in + 4 * plane + at);
}
INLINE vf limited(vf m, real largest) { return vmax(bc(-largest), vmin(bc(largest), m)); }

/* [output, radius, kind, field] to [radius, field, kind, output]. */
INLINE long from_torch(long r, long c, long kind, long o) { return o * DIFFERENCES + (r * KINDS + kind) * FIELDS + c; }
INLINE long packed(long r, long c, long kind, long o) { return ((r * FIELDS + c) * KINDS + kind) * FIELDS + o; }
static void turn_weights(real *to, const real *from)
{
    for (long r = 0; r < RADII; r++)
        for (long c = 0; c < FIELDS; c++)
            for (long kind = 0; kind < KINDS; kind++)
                for (long o = 0; o < FIELDS; o++) to[packed(r, c, kind, o)] = from[from_torch(r, c, kind, o)];
}
static void spread_passing(real *to, const Inputs *k, const Group *g)
{
    for (long o = 0; o < FIELDS; o++)
        for (long i = 0; i < g->wide; i++) to[o * g->wide + i] = k->passing[(g->first + i % g->count) * FIELDS + o];
}
static real *allocate(void **memory, long count)
{
    *memory = calloc(count * sizeof(real) + 64, 1);
    return (real *)(((uintptr_t)*memory + 63) & ~(uintptr_t)63);
}
static Sizes sizes_of(const int64_t *n, double largest)
{
    return (Sizes){n[0], n[1], n[2], n[4], n + 5, n[3], (real)largest};
}
static Inputs inputs_of(const int64_t *addresses)
{
    const real *const *a = (const real *const *)addresses;
    return (Inputs){a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10],
                    a[11], a[12]};
}

/* Copy a march's state to [sample, channel, y, x], scaled; and the other way, derivatives by that. */
void terms_end(const real *state, const real *scale, const real *centre, real *fields, const int64_t *counts)
{
    const Sizes s = sizes_of(counts, 0);
    for (long first = 0; first < s.batch; first += s.side) {
        const Group g = group_of(&s, first);
        for (long c = 0; c < FIELDS; c++)
            for (long b = 0; b < s.side; b++) {
                real *to = fields + ((first + b) * FIELDS + c) * s.ny * s.nx;
                for (long y = 0; y < s.ny; y++, to += s.nx) {
                    const real *from = state + laid_out(c, y, &s, &g) + b;
                    for (long x = 0; x < s.nx; x++) to[x] = (from[x * s.side] - centre[c]) / scale[c];
                }
            }
    }
}
void terms_begin_back(const real *by_fields, const real *scale, real *by_state, const int64_t *counts)
{
    const Sizes s = sizes_of(counts, 0);
    for (long first = 0; first < s.batch; first += s.side) {
        const Group g = group_of(&s, first);
        for (long c = 0; c < FIELDS; c++)
            for (long b = 0; b < s.side; b++) {
                const real *from = by_fields + ((first + b) * FIELDS + c) * s.ny * s.nx;
                for (long y = 0; y < s.ny; y++, from += s.nx) {
                    real *to = by_state + laid_out(c, y, &s, &g) + b;
                    for (long x = 0; x < s.nx; x++) to[x * s.side] = from[x] / scale[c];
                }
            }
    }
}

/* `counts`: samples, rows, columns, which radius is the middle one, how many samples lie side by side, and the radii,
 * the largest last. */
int terms_forward(const int64_t *addresses, const int64_t *counts, double largest, const int64_t *results)
{
    const Inputs k = inputs_of(addresses);
    const Results to = {(real *)results[0], (real *)results[1], (real *)results[2]};
    const Sizes s = sizes_of(counts, largest);
    const Group most = group_of(&s, 0);
    const long weights = UP(DIFFERENCES * FIELDS);
    void *memory;
    real *in = allocate(&memory, FIELDS * s.ny * most.pitch + weights + 27 * most.wide);
    if (!memory) return 1;
    real *around = in + FIELDS * s.ny * most.pitch, *out = around + weights, *slow = out + FIELDS * most.wide;
    real *light = slow + FIELDS * most.wide, *row = light + 2 * most.wide, *extra = row + FIELDS * most.wide;
    if (k.around) turn_weights(around, k.around);
    for (long first = 0; first < s.batch; first += s.side) {
        const Group g = group_of(&s, first);
        take_in(in, &k, to.state, &s, &g);
        if (k.regime) spread_passing(slow, &k, &g);
        for (long y = 0; y < s.ny && to.added; y++) {
            for (long o = 0; o < FIELDS; o++) {
                if (k.lasting) gather(out + o * g.wide, k.lasting, FIELDS, o, y, &s, &g);
                else memset(out + o * g.wide, 0, g.wide * sizeof(real));
                if (k.closure) gather(row + o * g.wide, k.closure, FIELDS, o, y, &s, &g);
            }
            if (k.light) for (long c = 0; c < 2; c++) gather(light + c * g.wide, k.light, 2, c, y, &s, &g);
            for (long p = 0; p < g.wide; p += LANES) {
                vf acc[FIELDS];
                UNROLL for (int o = 0; o < FIELDS; o++) acc[o] = load(out + o * g.wide + p);
                if (k.closure)
                    UNROLL for (int o = 0; o < FIELDS; o++) acc[o] += k.factor[o] * vtanh(load(row + o * g.wide + p));
                if (k.light) {
                    vf q[MIXED];
                    radiated(q, in, light, &s, &g, y, p);
                    UNROLL for (int o = 0; o < FIELDS; o++)
                        UNROLL for (int i = 0; i < MIXED; i++) acc[o] += q[i] * k.radiation[o * MIXED + i];
                }
                if (k.around)
                    for (long r = 0; r < RADII; r++)
                        for (long c = 0; c < FIELDS; c++) {
                            const Stencil t = stencil_of(in, &k, &s, &g, r, c, y);
                            const real *w = around + packed(r, c, 0, 0);
                            vf d[KINDS];
                            differ(d, &t, p);
                            UNROLL for (int kind = 0; kind < KINDS; kind++)
                                UNROLL for (int o = 0; o < FIELDS; o++) acc[o] += d[kind] * w[kind * FIELDS + o];
                        }
                UNROLL for (int o = 0; o < FIELDS; o++) store(out + o * g.wide + p, acc[o]);
            }
            for (long o = 0; o < FIELDS; o++) put_row(to.added, out + o * g.wide, o, y, &s, &g);
            if (!k.regime) continue;
            const Stencil pressure = stencil_of(in, &k, &s, &g, s.middle, 2, y);
            for (long p = 0; p < g.wide; p += LANES) {
                vf m[MIXED];
                regime_of(m, in, &pressure, &s, &g, y, p);
                UNROLL for (int i = 0; i < MIXED; i++) m[i] = limited(m[i], s.largest);
                UNROLL for (int o = 0; o < FIELDS; o++) {
                    vf acc = load(slow + o * g.wide + p);
                    UNROLL for (int i = 0; i < MIXED; i++) acc += m[i] * k.regime[o * MIXED + i];
                    store(extra + o * g.wide + p, acc);
                }
            }
            for (long o = 0; o < FIELDS; o++) put_row(to.decay, extra + o * g.wide, o, y, &s, &g);
        }
    }
    free(memory);
    return 0;
}

INLINE void add_to(real *p, vf v) { store(p, load(p) + v); }
/* Carry derivatives by the differences of a cell to it and its neighbours. */
INLINE void carry(real *here, real *north, real *south, const Stencil *t, const vf *d, long p)
{
    const vf sideways = t->half * d[EASTWARD], curved = t->square * d[CURVED], along = (real)0.5 * d[NORTHWARD];
    const vf turned = along - t->turn * d[CURVED];
    add_to(here + p, -2 * (curved + d[CURVED]));
    add_to(here + p + t->away, curved + sideways);
    add_to(here + p - t->away, curved - sideways);
    add_to(north + p, d[CURVED] + turned);
    add_to(south + p, d[CURVED] - turned);
}

int terms_backward(const int64_t *addresses, const int64_t *counts, double largest, const int64_t *seeds,
                   const int64_t *gradients)
{
    const Inputs k = inputs_of(addresses);
    real *const *to = (real *const *)gradients;
    const Gradients out = {to[0], to[1], to[2], to[3], to[4], to[5], to[6], to[7]};
    const real *by_added = (const real *)seeds[0], *by_decay = (const real *)seeds[1], *by_state = (const real *)seeds[2];
    const Sizes s = sizes_of(counts, largest);
    const Group most = group_of(&s, 0);
    const long weights = UP(DIFFERENCES * FIELDS), planes = FIELDS * s.ny * most.pitch;
    void *memory;
    real *in = allocate(&memory, 2 * planes + weights + 22 * most.wide +
                                 (DIFFERENCES * FIELDS + 2 * MIXED * FIELDS + FIELDS) * LANES);
    if (!memory) return 1;
    real *by = in + planes, *around = by + planes, *seed = around + weights, *slow = seed + FIELDS * most.wide;
    real *light = slow + FIELDS * most.wide, *row = light + 2 * most.wide, *passing = row + FIELDS * most.wide;
    vf *sums = (vf *)(passing + FIELDS * most.wide), *by_radiation = sums + DIFFERENCES * FIELDS;
    vf *by_regime = by_radiation + MIXED * FIELDS, *by_factor = by_regime + MIXED * FIELDS;
    if (k.around) turn_weights(around, k.around);
    for (long first = 0; first < s.batch; first += s.side) {
        const Group g = group_of(&s, first);
        const long plane = s.ny * g.pitch;
        take_in(in, &k, 0, &s, &g);
        memset(by, 0, FIELDS * plane * sizeof(real));
        for (long c = 0; by_state && c < FIELDS; c++)
            for (long y = 0; y < s.ny; y++) {
                const real *from = by_state + laid_out(c, y, &s, &g);
                real *row = by + (c * s.ny + y) * g.pitch + g.ghosts;
                for (long i = 0; i < g.row; i++) row[i] = from[i] * k.scale[c];
            }
        memset(passing, 0, FIELDS * g.wide * sizeof(real));
        for (long y = 0; y < s.ny && by_added; y++) {
            real *at[FIELDS];
            for (long c = 0; c < FIELDS; c++) at[c] = by + c * plane + y * g.pitch + g.ghosts;
            for (long o = 0; o < FIELDS; o++) {
                take_row(seed + o * g.wide, by_added, o, y, &s, &g);
                if (out.lasting) scatter(out.lasting, seed + o * g.wide, FIELDS, o, y, &s, &g);
                if (k.regime) take_row(slow + o * g.wide, by_decay, o, y, &s, &g);
                if (!k.closure) continue;
                real *closure = row + o * g.wide;
                gather(closure, k.closure, FIELDS, o, y, &s, &g);
                for (long p = 0; p < g.wide; p += LANES) {
                    const vf value = load(seed + o * g.wide + p), bounded = vtanh(load(closure + p));
                    by_factor[o] += value * bounded;
                    store(closure + p, value * k.factor[o] * (1 - bounded * bounded));
                }
                scatter(out.closure, closure, FIELDS, o, y, &s, &g);
            }
            if (k.light) {
                for (long c = 0; c < 2; c++) gather(light + c * g.wide, k.light, 2, c, y, &s, &g);
                for (long p = 0; p < g.wide; p += LANES) {
                    vf q[MIXED], d[MIXED] = {{0}};
                    const vf speed = radiated(q, in, light, &s, &g, y, p);
                    UNROLL for (int o = 0; o < FIELDS; o++) {
                        const vf value = load(seed + o * g.wide + p);
                        UNROLL for (int i = 0; i < MIXED; i++) {
                            d[i] += value * k.radiation[o * MIXED + i];
                            by_radiation[o * MIXED + i] += value * q[i];
                        }
                    }
                    const vf day = load(light + p), night = load(light + g.wide + p), share = night * d[4] / speed;
                    const real *wind = in + y * g.pitch + g.ghosts + p;
                    add_to(at[0] + p, share * load(wind));
                    add_to(at[1] + p, share * load(wind + plane));
                    add_to(at[3] + p, day * d[0] + night * d[2]);
                    add_to(at[4] + p, day * d[1] + night * d[3]);
                }
            }
            for (long r = 0; k.around && r < RADII; r++)
                for (long c = 0; c < FIELDS; c++) {
                    const Stencil t = stencil_of(in, &k, &s, &g, r, c, y);
                    const real *w = around + packed(r, c, 0, 0);
                    real *north = by + (t.north - in), *south = by + (t.south - in);
                    vf acc[KINDS * FIELDS] = {{0}};
                    for (long p = 0; p < g.wide; p += LANES) {
                        vf d[KINDS], back[KINDS] = {{0}};
                        differ(d, &t, p);
                        UNROLL for (int o = 0; o < FIELDS; o++) {
                            const vf value = load(seed + o * g.wide + p);
                            UNROLL for (int kind = 0; kind < KINDS; kind++) {
                                acc[kind * FIELDS + o] += value * d[kind];
                                back[kind] += value * w[kind * FIELDS + o];
                            }
                        }
                        carry(at[c], north, south, &t, back, p);
                    }
                    UNROLL for (int n = 0; n < KINDS * FIELDS; n++) sums[packed(r, c, 0, 0) + n] += acc[n];
                }
            if (!k.regime) continue;
            const Stencil pressure = stencil_of(in, &k, &s, &g, s.middle, 2, y);
            real *north = by + (pressure.north - in), *south = by + (pressure.south - in);
            for (long p = 0; p < g.wide; p += LANES) {
                vf m[MIXED], d[MIXED] = {{0}};
                regime_of(m, in, &pressure, &s, &g, y, p);
                UNROLL for (int o = 0; o < FIELDS; o++) {
                    const vf value = load(slow + o * g.wide + p);
                    add_to(passing + o * g.wide + p, value);
                    UNROLL for (int i = 0; i < MIXED; i++) {
                        d[i] += value * k.regime[o * MIXED + i];
                        by_regime[o * MIXED + i] += value * limited(m[i], s.largest);
                    }
                }
                UNROLL for (int i = 0; i < MIXED; i++) d[i] = vand(d[i], (m[i] >= -s.largest) & (m[i] <= s.largest));
                const vf slopes[KINDS] = {d[2], d[3], {0}};
                add_to(at[0] + p, d[0]);
                add_to(at[1] + p, d[1]);
                add_to(at[3] + p, d[4]);
                add_to(at[4] + p, -d[4]);
                carry(at[2], north, south, &pressure, slopes, p);
            }
        }
        for (long c = 0; c < FIELDS; c++)
            for (long y = 0; y < s.ny; y++) {
                real *line = by + (c * s.ny + y) * g.pitch + g.ghosts;
                for (long i = 0; i < g.ghosts; i++) {
                    line[i % g.count] += line[i - g.ghosts];
                    line[g.row - g.count + i % g.count] += line[g.row + i];
                }
                scatter(out.fields, line, FIELDS, c, y, &s, &g);
            }
        for (long b = 0; k.regime && b < g.count; b++)
            for (long o = 0; o < FIELDS; o++) {
                double whole = 0;
                for (long x = 0; x < s.nx; x++) whole += passing[o * g.wide + x * g.count + b];
                out.passing[(g.first + b) * FIELDS + o] = (real)whole;
            }
    }
    for (long o = 0; k.closure && o < FIELDS; o++) out.factor[o] = (real)vsum(by_factor[o]);
    for (long n = 0; k.light && n < MIXED * FIELDS; n++) out.radiation[n] = (real)vsum(by_radiation[n]);
    for (long n = 0; k.regime && n < MIXED * FIELDS; n++) out.regime[n] = (real)vsum(by_regime[n]);
    for (long r = 0; k.around && r < RADII; r++)
        for (long c = 0; c < FIELDS; c++)
            for (long kind = 0; kind < KINDS; kind++)
                for (long o = 0; o < FIELDS; o++)
                    out.around[from_torch(r, c, kind, o)] = (real)vsum(sums[packed(r, c, kind, o)]);
    free(memory);
    return 0;
}
