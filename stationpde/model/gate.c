/* A gate behind the network of `network.c`: the sigmoid w of its outputs mixes two fields, more + w (fields - more).
 *
 * Arrays are of `count` values, the last of which need not fill a vector.
 */
INLINE long part_of(vf *to, const real *from, long p, long count)
{
    const long left = count - p < LANES ? count - p : LANES;
    *to = bc(0);
    if (left == LANES) *to = load(from + p);
    else memcpy(to, from + p, left * sizeof(real));
    return left;
}
INLINE void put_part(real *to, long p, long left, vf value)
{
    if (left == LANES) store(to + p, value);
    else memcpy(to + p, &value, left * sizeof(real));
}
void gate_forward(long count, const real *outputs, const real *fields, const real *more, real *mixed, real *weight)
{
    for (long p = 0; p < count; p += LANES) {
        vf z, x, y;
        part_of(&x, fields, p, count), part_of(&y, more, p, count);
        const long left = part_of(&z, outputs, p, count);
        const vf w = 1 / (1 + vexp(-z));
        put_part(weight, p, left, w);
        put_part(mixed, p, left, y + w * (x - y));
    }
}
/* Write derivatives by the outputs; either seed may be null. */
void gate_begin_back(long count, const real *weight, const real *fields, const real *more, const real *by_mixed,
                     const real *by_weight, real *by_outputs)
{
    for (long p = 0; p < count; p += LANES) {
        vf w, x, y, seed = {0}, direct = {0};
        part_of(&x, fields, p, count), part_of(&y, more, p, count);
        if (by_mixed) part_of(&seed, by_mixed, p, count);
        if (by_weight) part_of(&direct, by_weight, p, count);
        const long left = part_of(&w, weight, p, count);
        put_part(by_outputs, p, left, (seed * (x - y) + direct) * (w * (1 - w)));
    }
}
/* Add derivatives by both fields where they are mixed to those by the network's inputs; either may be null. */
void gate_end_back(long count, const real *weight, const real *by_mixed, real *by_fields, real *by_more)
{
    for (long p = 0; p < count; p += LANES) {
        vf w, seed, before;
        part_of(&w, weight, p, count);
        const long left = part_of(&seed, by_mixed, p, count);
        if (by_fields) part_of(&before, by_fields, p, count), put_part(by_fields, p, left, before + seed * w);
        if (by_more) part_of(&before, by_more, p, count), put_part(by_more, p, left, before + seed * (1 - w));
    }
}
