/* A linear layer of many rows, forward and backward: out = W x + b. Products are those of `products.c`.
 */

#define PARTS 4                                              /* rows share sums by part: whatever the threads */
#define ROWS_OF_A_PART 512

typedef struct { const real *x, *weight, *bias, *panels; long inputs, outputs; } Layer;

static int forward_part(const Layer *k, const real *start, long from, long to, real *out)
{
    const long wide = WIDE(k->outputs);
    char *reserved;
    real *sums = reserve(&reserved, wide * BLOCK);
    if (!reserved) return 1;
    for (long row = from; row < to; row += BLOCK) {
        const long count = to - row < BLOCK ? to - row : BLOCK;
        real *at = wide == k->outputs ? out + row * k->outputs : sums;
        multiply(at, wide, k->x + row * k->inputs, k->inputs, k->panels, k->inputs, wide, 0, start, count);
        if (at == sums) copy_rows(out + row * k->outputs, k->outputs, sums, wide, k->outputs, count);
    }
    free(reserved);
    return 0;
}
int layer_forward(const real *x, const real *weight, const real *bias, long rows, long inputs, long outputs,
                  real *out, int threads)
{
    const long wide = WIDE(outputs), blocks = (rows + BLOCK - 1) / BLOCK, parts = threads < blocks ? threads : blocks;
    char *reserved;
    real *panels = reserve(&reserved, wide * (inputs + 1)), *start = panels + wide * inputs;
    if (!reserved) return 1;
    memset(start, 0, wide * sizeof(real));
    memcpy(start, bias, outputs * sizeof(real));
    pack(panels, weight, inputs, outputs, 1, inputs);
    const Layer k = {x, weight, bias, panels, inputs, outputs};
    int failed = 0;
#pragma omp parallel for num_threads(threads) reduction(|:failed) if (parts > 1)
    for (long n = 0; n < parts; n++) {
        const long from = blocks * n / parts * BLOCK, to = blocks * (n + 1) / parts * BLOCK;
        failed |= forward_part(&k, start, from, to < rows ? to : rows, out);
    }
    free(reserved);
    return failed;
}

/* Sums are by weights [output, WIDE(input)], then by bias [WIDE(output)]. */
static int backward_part(const Layer *k, const real *seed, long from, long to, real *by_x, real *sums)
{
    const long wide = WIDE(k->inputs), other = WIDE(k->outputs), inputs = k->inputs, outputs = k->outputs;
    char *reserved;
    real *block = reserve(&reserved, (2 * wide + other) * BLOCK), *by_block = block + wide * BLOCK;
    if (!reserved) return 1;
    real *seeds = by_block + wide * BLOCK;
    memset(block, 0, (2 * wide + other) * BLOCK * sizeof(real));
    for (long row = from; row < to; row += BLOCK) {
        const long count = to - row < BLOCK ? to - row : BLOCK;
        const real *at = seed + row * outputs, *rows = k->x + row * inputs;
        if (other != outputs) copy_rows(seeds, other, at, outputs, outputs, count), at = seeds;
        if (wide != inputs) copy_rows(block, wide, rows, inputs, inputs, count), rows = block;
        add_rows(sums + wide * outputs, at, other, other, count);
        add_outer(sums, wide, at, other, outputs, rows, wide, wide, count);
        if (!by_x) continue;
        multiply(by_block, wide, at, other, k->panels, outputs, wide, 0, 0, count);
        copy_rows(by_x + row * inputs, inputs, by_block, wide, inputs, count);
    }
    free(reserved);
    return 0;
}
/* `by_x` may be null. */
int layer_backward(const real *x, const real *weight, const real *seed, long rows, long inputs, long outputs,
                   real *by_x, real *by_weight, real *by_bias, int threads)
{
    const long wide = WIDE(inputs), sums = wide * outputs + WIDE(outputs);
    const long needed = (rows + ROWS_OF_A_PART - 1) / ROWS_OF_A_PART, parts = needed < PARTS ? needed : PARTS;
    char *reserved;
    real *panels = reserve(&reserved, wide * outputs + parts * sums), *all = panels + wide * outputs;
    if (!reserved) return 1;
    memset(all, 0, parts * sums * sizeof(real));
    pack(panels, weight, outputs, inputs, inputs, 1);
    const Layer k = {x, weight, 0, panels, inputs, outputs};
    int failed = 0;
#pragma omp parallel for num_threads(threads) reduction(|:failed) if (threads > 1 && parts > 1)
    for (long n = 0; n < parts; n++)
        failed |= backward_part(&k, seed, rows * n / parts, rows * (n + 1) / parts, by_x, all + n * sums);
    for (long n = 1; n < parts; n++)
        for (long p = 0; p < sums; p++) all[p] += all[n * sums + p];
    copy_rows(by_weight, inputs, all, wide, inputs, outputs);
    memcpy(by_bias, all + wide * outputs, outputs * sizeof(real));
    free(reserved);
    return failed;
}
