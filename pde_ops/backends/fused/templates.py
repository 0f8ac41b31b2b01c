"""The fixed parts of a generated C kernel, to be filled in by :mod:`.emit_c`."""

__all__ = ["BACKWARD_JOINS", "DISPATCH", "ENTRY", "FORWARD_JOINS", "JOB", "NO_JOINS", "TASK", "WINDOW"]

JOB = """
#ifdef _OPENMP
#include <omp.h>
#endif
#if TAIL
#define MASKED(v) vand(v, mask)
#elif ROW > NX
static const whole in_row[NXV] __attribute__((aligned(64))) = {[0 ... NX - 1] = -1};
#define MASKED(v) vand(v, *(const vi *)(in_row + x))         /* what the padding computes counts for nothing */
#else
#define MASKED(v) (v)
#endif
#define ROW_OF(slot, y) (job->arrays[slot].p + b * job->arrays[slot].batch + (y) * job->arrays[slot].row)

/* What is put on the state after every so many steps: added - decay * (the state those steps began with), and the
 * derivatives by both; addresses may be null. */
typedef struct { const real *added, *decay; real *by_added, *by_decay, *kept; } Joined;
typedef struct {
    const Array *arrays; long ny, rows, blocks; const vf *table, *sc; double *sums;
    const int64_t *given; long steps, every; Joined joined;
} Job;

INLINE void copy_row(real *restrict to, const real *restrict from)
{
    for (long x = 0; x < NXV; x += LANES) {
        __builtin_prefetch(from + ROW + x);                  /* the row after this one */
        store(to + x, load(from + x));
    }
    for (long x = NXV; x < NX; x++) to[x] = from[x];
}
INLINE real *cleared(real *row, char *touched)
{
    if (!*touched) memset(row, 0, ROW * sizeof(real));
    *touched = 1;
    return row;
}
INLINE void turn_row(real *to) { for (long x = 0; x < NX; x++) to[x] = -to[x]; }
"""

WINDOW = """        if (y == at + 1 && centre + 1 + RADIUS{k} < ROWS{k}) {{
            centre++;
            fill{k}(job, b, y + RADIUS{k}, window + LEFT{k} + (centre + RADIUS{k}) * VIEWS{k} * PITCH{k});
        }} else if (y == at + 1) {{                            /* the window is full: its last rows become the first */
            memmove(window, window + (centre + 1 - RADIUS{k}) * VIEWS{k} * PITCH{k},
                    2 * RADIUS{k} * VIEWS{k} * PITCH{k} * sizeof(real));
            centre = RADIUS{k};
            fill{k}(job, b, y + RADIUS{k}, window + LEFT{k} + 2 * RADIUS{k} * VIEWS{k} * PITCH{k});
        }} else {{
            centre = RADIUS{k};
            for (long n = 0; n <= 2 * RADIUS{k}; n++)
                fill{k}(job, b, y - RADIUS{k} + n, window + LEFT{k} + n * VIEWS{k} * PITCH{k});
        }}
        at = y;
"""

TASK = """
static int task{k}(const Job *job, long b, long r0, long r1, real *work, double *sums)
{{
#define IS_MINE(t) (source_y(t, ny) >= r0 && source_y(t, ny) < r1)
    const long ny = job->ny;
    const vf *sc = job->sc;
    real *window = work, *buffers = work + WINDOW{k};
    real *buf = buffers + EDGE{k}, *spare = buffers + {buffers} * BUFFER{k};
    const real *in[{inputs}] = {{0}};
    real *out[{outputs}] = {{0}}, sign[{outputs}];
    long at = -2, centre = 0;
    vi all = (vi){{0}} - 1;
#if TAIL
    real tail_in[{inputs}][LANES] = {{{{0}}}}, tail_out[{outputs}][LANES] = {{{{0}}}};
    vi mask;
    for (int lane = 0; lane < LANES; lane++) mask[lane] = lane < TAIL ? -1 : 0;
#endif
    memset(buffers, 0, ({buffers} + 1) * BUFFER{k} * sizeof(real));
    char *touched = {fresh} ? calloc({fresh}, r1 - r0) : 0;
    if ({fresh} && !touched) return 1;
    for (long y = {first}; y < {last}; y++) {{
        if (!({needed})) continue;
        const int own = y >= r0 && y < r1;
        const vf *row = job->table + y * {rows};
        double part[{parts}] = {{0}};
{window}
{loop}
        const real *win = {win};
        cells{k}(win, buf, in, out, row, sc, sign, all, NXV, part);
#if TAIL
        const real *edge_in[{inputs}]; real *edge_out[{outputs}];
        for (int i = 0; i < {inputs}; i++) {{
            if (in[i]) for (int lane = 0; lane < TAIL; lane++) tail_in[i][lane] = in[i][NXV + lane];
            edge_in[i] = tail_in[i];
        }}
        for (int o = 0; o < {outputs}; o++) {{
            if (out[o]) for (int lane = 0; lane < TAIL; lane++) tail_out[o][lane] = out[o][NXV + lane];
            edge_out[o] = tail_out[o];
            for (int n = 0; n < o && n < {carried}; n++) if (out[n] == out[o]) edge_out[o] = edge_out[n];
        }}
        cells{k}(win + NXV, buf + NXV, edge_in, edge_out, row, sc, sign, mask, LANES, part);
        for (int o = 0; o < {outputs}; o++)
            if (out[o]) for (int lane = 0; lane < TAIL; lane++) out[o][NXV + lane] = edge_out[o][lane];
#endif
{folds}
{sums}
        (void)own; (void)row;
    }}
{untouched}
    free(touched);
    (void)window; (void)spare; (void)sums; (void)sc; (void)at; (void)centre; (void)buf; (void)sign;
    return 0;
#undef IS_MINE
}}
"""

NO_JOINS = """
static void join_before(const Job *job, long step, long b) { (void)job; (void)step; (void)b; }
static void join_after(const Job *job, long step, long b) { (void)job; (void)step; (void)b; }
"""

FORWARD_JOINS = """
#define GIVEN(step, block) ((real *)job->given[(step) * {width} + (block)] + b * size)
static void join_before(const Job *job, long step, long b) {{ (void)job; (void)step; (void)b; }}
static void join_after(const Job *job, long step, long b)
{{
    const long size = {fields} * job->ny * ROW;
    const Joined *j = &job->joined;
    if (!j->added || (step + 1) % job->every) return;
    real *restrict out = GIVEN(step, {output});
    const real *restrict added = j->added + b * size;
    if (!j->decay) {{
        for (long i = 0; i < size; i++) out[i] += added[i];
        return;
    }}
    const real *restrict decay = j->decay + b * size, *restrict start = GIVEN(step + 1 - job->every, {field});
    for (long i = 0; i < size; i++) out[i] += added[i] - decay[i] * start[i];
}}
"""

BACKWARD_JOINS = """
#define GIVEN(step, block) ((real *)job->given[(step) * {width} + (block)] + b * size)
/* The first step of the way back is the last of the march. */
static void join_before(const Job *job, long step, long b)
{{
    const long size = {fields} * job->ny * ROW;
    const Joined *j = &job->joined;
    if ((job->steps - step) % job->every) return;
    const real *restrict seed = GIVEN(step, {seed});
    if (j->by_added) {{
        real *restrict by = j->by_added + b * size;
        for (long i = 0; i < size; i++) by[i] += seed[i];
    }}
    if (!j->decay) return;
    const real *restrict decay = j->decay + b * size, *restrict start = GIVEN(step + job->every - 1, {field});
    real *restrict kept = j->kept + b * size;
    for (long i = 0; i < size; i++) kept[i] = decay[i] * seed[i];
    if (j->by_decay) {{
        real *restrict by = j->by_decay + b * size;
        for (long i = 0; i < size; i++) by[i] -= start[i] * seed[i];
    }}
}}
static void join_after(const Job *job, long step, long b)
{{
    const long size = {fields} * job->ny * ROW;
    const Joined *j = &job->joined;
    if (!j->decay || (job->steps - step - 1) % job->every || step + 1 < job->every) return;
    real *restrict by = GIVEN(step, {gradient});
    const real *restrict kept = j->kept + b * size;
    for (long i = 0; i < size; i++) by[i] -= kept[i];
}}
"""

DISPATCH = """
/* Run tasks: all sweeps of all steps of each (sweep < 0), or one sweep of one step. */
static int run_range(const Job *job, int sweep, long from, long to)
{{
    real *memory = malloc(({work}) * sizeof(real) + 64);
    if (!memory) return 1;
    real *work = (real *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    int failed = 0;
    for (long t = from; t < to && !failed; t++) {{
        const long b = t / job->blocks, r0 = (t % job->blocks) * job->rows;
        const long r1 = r0 + job->rows < job->ny ? r0 + job->rows : job->ny;
        double *sums = job->sums + t * {sums};
        if (sweep >= 0) {{
{cases}
            continue;
        }}
        Job here = *job;
        for (long step = 0; step < job->steps && !failed; step++, here.arrays += {arrays}) {{
            join_before(job, step, b);
{all}
            join_after(job, step, b);
        }}
    }}
    free(memory);
    return failed;
}}

static int run_all(const Job *job, int sweep, long tasks, int threads)
{{
    int failed = 0;
#ifdef _OPENMP
    if (threads > 1 && tasks > 1) {{
        #pragma omp parallel num_threads(threads) reduction(|:failed)
        {{
            const long id = omp_get_thread_num(), count = omp_get_num_threads();
            failed |= run_range(job, sweep, tasks * id / count, tasks * (id + 1) / count);
        }}
        return failed;
    }}
#endif
    (void)threads;
    failed = run_range(job, sweep, 0, tasks);
    return failed;
}}
"""

ENTRY = """
INLINE double total(const double *sums, long step, long count)
{{
    double all = 0;
    for (long t = 0; t < count; t++) all += sums[t * step];
    return all;
}}

int run(const int64_t *addresses, long batch, long ny, const real *coefficient, const real *factor, double dt,
        const double *rows, real *gradients, int threads, long steps, long every, const int64_t *joined)
{{
    const int64_t plane = ny * ROW;
    Array *arrays = malloc((steps * {count} + 1) * sizeof(Array));
    const long blocks = (ny + {target} - 1) / {target}, tasks = batch * blocks;
    vf sc[{scalars}] = {{{{0}}}};
    void *memory = malloc((ny * {rows} + 1) * sizeof(vf));
    vf *table = (vf *)(((uintptr_t)memory + sizeof(vf) - 1) & ~(uintptr_t)(sizeof(vf) - 1));
    double *sums = calloc(tasks * {sums} + 1, sizeof(double));
    Job job = {{arrays, ny, (ny + blocks - 1) / blocks, blocks, table, sc, sums, addresses, steps, every, {{0}}}};
    if (joined) job.joined = (Joined){{(real *)joined[0], (real *)joined[1], (real *)joined[2], (real *)joined[3],
                                      (real *)joined[4]}};
    int failed = !memory || !sums || !arrays;
    if (!failed) {{
        for (long step = 0; step < steps; step++) {{
            const int64_t *given = addresses + step * {width};
            const Array those[] = {{
{arrays}
            }};
            memcpy(arrays + step * {count}, those, sizeof those);
        }}
        for (int k = 0; k < {derivatives}; k++) gradients[k] = 0;
        slow_values(coefficient, factor, dt, rows, ny, sc, table);
        /* A sample in one block runs all its sweeps in one go, while it is in the cache. */
        if (blocks == 1) failed = run_all(&job, -1, tasks, threads);
        else for (long step = 0; step < steps && !failed; step++, job.arrays += {count}) {{
            for (long b = 0; b < batch; b++) join_before(&job, step, b);
            for (int k = 0; k < {sweeps} && !failed; k++) failed = run_all(&job, k, tasks, threads);
            for (long b = 0; b < batch; b++) join_after(&job, step, b);
        }}
{writes}
    }}
    (void)gradients;
    free(arrays);
    free(memory);
    free(sums);
    return failed;
}}
"""
