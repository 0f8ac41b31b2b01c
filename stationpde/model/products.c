/* Products of rows with matrices, and of columns with columns, near the peak of the processor's multiply-adds.
 *
 * Matrices that rows are multiplied with lie in panels of PANEL columns, padded with zeros: [panel, input, PANEL].
 */
#define PANEL (2 * LANES)
#define PADDED_TO(n, m) (((n) + (m) - 1) / (m) * (m))
#define UP(n) PADDED_TO(n, LANES)
#define WIDE(n) PADDED_TO(n, PANEL)
#if VECTOR_BYTES == 64
#define AT_ONCE 12                                           /* rows whose sums stay in registers */
#define OUTER 8
#else
#define AT_ONCE 4
#define OUTER 4
#endif
#define BLOCK 96                                             /* rows whose layers stay in a cache */
#define UNROLL _Pragma("GCC unroll 16")

/* Work space, aligned; the caller frees what `malloc` returned. */
static real *reserve(char **memory, long count)
{
    *memory = malloc(count * sizeof(real) + 64);
    return (real *)(((uintptr_t)*memory + 63) & ~(uintptr_t)63);
}

/* [input, output], with strides, to panels; the padding is zero. */
static void pack(real *to, const real *from, long inputs, long outputs, long by_input, long by_output)
{
    for (long n = 0; n < outputs; n += PANEL)
        for (long k = 0; k < inputs; k++)
            for (long j = n; j < n + PANEL; j++) *to++ = j < outputs ? from[k * by_input + j * by_output] : 0;
}

/* Add to sums of `m` rows, `v` vectors each, their products with a panel. */
INLINE void products(vf *acc, const real *rows, long pitch, const real *panel, long inputs, const int m, const int v)
{
    for (long k = 0; k < inputs; k++, panel += PANEL) {
        vf w[2];
        UNROLL for (int j = 0; j < v; j++) w[j] = load(panel + j * LANES);
        UNROLL for (int i = 0; i < m; i++) {
            const vf x = bc(rows[i * pitch + k]);
            UNROLL for (int j = 0; j < v; j++) acc[i * v + j] += x * w[j];
        }
    }
}
/* Where a product starts: `from` by row, or the same for all rows where `pitch` is 0, or zero. */
INLINE void some_rows(real *to, long to_pitch, const real *rows, long pitch, const real *panel, long inputs,
                      const real *const *starts, const real *start, const int m, const int v)
{
    vf acc[AT_ONCE * 2];
    UNROLL for (int i = 0; i < m; i++)
        UNROLL for (int j = 0; j < v; j++)
            acc[i * v + j] = starts ? load(starts[i] + j * LANES) : start ? load(start + j * LANES) : bc(0);
    products(acc, rows, pitch, panel, inputs, m, v);
    UNROLL for (int i = 0; i < m; i++)
        UNROLL for (int j = 0; j < v; j++) store(to + i * to_pitch + j * LANES, acc[i * v + j]);
}
/* Multiply `count` rows with one panel, of which `v` vectors are wanted. */
INLINE void panel_of_rows(real *to, long to_pitch, const real *rows, long pitch, const real *panel, long inputs,
                          const real *const *starts, long offset, const real *start, long count, const int v)
{
    long r = 0;
    const real *from[AT_ONCE];
    for (; r + AT_ONCE <= count; r += AT_ONCE) {
        if (starts) for (int i = 0; i < AT_ONCE; i++) from[i] = starts[r + i] + offset;
        some_rows(to + r * to_pitch, to_pitch, rows + r * pitch, pitch, panel, inputs, starts ? from : 0, start,
                  AT_ONCE, v);
    }
    for (; r < count; r++) {
        if (starts) from[0] = starts[r] + offset;
        some_rows(to + r * to_pitch, to_pitch, rows + r * pitch, pitch, panel, inputs, starts ? from : 0, start, 1, v);
    }
}
/* Multiply `count` rows with all panels; `outputs` is a multiple of PANEL, or at most LANES. */
static void multiply(real *to, long to_pitch, const real *rows, long pitch, const real *panels, long inputs,
                     long outputs, const real *const *starts, const real *start, long count)
{
    if (outputs <= LANES) {
        panel_of_rows(to, to_pitch, rows, pitch, panels, inputs, starts, 0, start, count, 1);
        return;
    }
    for (long n = 0; n < outputs; n += PANEL, panels += inputs * PANEL)
        panel_of_rows(to + n, to_pitch, rows, pitch, panels, inputs, starts, n, start ? start + n : 0, count, 2);
}

/* Add the products of columns of two matrices: sums[m][n] += a[r][m] b[r][n]. */
INLINE void some_columns(real *sums, long pitch, const real *a, long a_pitch, const real *b, long b_pitch, long count,
                         const int m, const int v)
{
    vf acc[OUTER * 2] = {{0}};
    for (long r = 0; r < count; r++) {
        vf x[2];
        UNROLL for (int j = 0; j < v; j++) x[j] = load(b + r * b_pitch + j * LANES);
        UNROLL for (int i = 0; i < m; i++) {
            const vf y = bc(a[r * a_pitch + i]);
            UNROLL for (int j = 0; j < v; j++) acc[i * v + j] += y * x[j];
        }
    }
    UNROLL for (int i = 0; i < m; i++)
        UNROLL for (int j = 0; j < v; j++) {
            real *at = sums + i * pitch + j * LANES;
            store(at, load(at) + acc[i * v + j]);
        }
}
/* `wide` columns of b, a multiple of PANEL. */
static void add_outer(real *sums, long pitch, const real *a, long a_pitch, long columns, const real *b, long b_pitch,
                      long wide, long count)
{
    for (long n = 0; n < wide; n += PANEL) {
        long m = 0;
        for (; m + OUTER <= columns; m += OUTER)
            some_columns(sums + m * pitch + n, pitch, a + m, a_pitch, b + n, b_pitch, count, OUTER, 2);
        for (; m < columns; m++)
            some_columns(sums + m * pitch + n, pitch, a + m, a_pitch, b + n, b_pitch, count, 1, 2);
    }
}
static void add_rows(real *sums, const real *rows, long pitch, long wide, long count)
{
    for (long n = 0; n < wide; n += LANES) {
        vf all = load(sums + n);
        for (long r = 0; r < count; r++) all += load(rows + r * pitch + n);
        store(sums + n, all);
    }
}

/* SiLU of `count` values, a multiple of LANES, and its slope where wanted. */
INLINE void silu(real *to, real *slope, const real *from, long count)
{
    for (long p = 0; p < count; p += LANES) {
        const vf z = load(from + p), share = 1 / (1 + vexp(-z));
        store(to + p, z * share);
        if (slope) store(slope + p, share * (1 + z * (1 - share)));
    }
}
INLINE void copy_rows(real *to, long to_pitch, const real *from, long pitch, long width, long count)
{
    for (long r = 0; r < count; r++) memcpy(to + r * to_pitch, from + r * pitch, width * sizeof(real));
}
