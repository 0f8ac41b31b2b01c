/* Vector types, elementary functions and borders shared by every generated kernel.
 *
 * The inner loops are written with the compiler's own vector types, because automatic vectorisation of long bodies is
 * fragile: one unlucky construct and a loop runs eight times slower without a word. The width follows the machine.
 *
 * The generator defines before this point:
 *   REAL_IS_DOUBLE  0 for float, 1 for double
 *   NX              values in a row: cells times samples side by side
 *   SIDE            samples that lie side by side, value by value; 1 unless a narrow grid is widened with them
 *   ROW             values from one row to the next: more than NX where rows are padded to whole vectors
 *   BORDER_X, BORDER_Y   0 zero gradient, 1 periodic, 2 reflecting
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#if REAL_IS_DOUBLE
typedef double real;
typedef int64_t whole;
#define LANES (VECTOR_BYTES / 8)
#else
typedef float real;
typedef int32_t whole;
#define LANES (VECTOR_BYTES / 4)
#endif
typedef real vf __attribute__((vector_size(VECTOR_BYTES)));
typedef whole vi __attribute__((vector_size(VECTOR_BYTES)));
typedef real vf_any __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

#ifndef SIDE
#define SIDE 1
#endif
#ifndef ROW
#define ROW NX
#endif
#define CELLS (NX / SIDE)
#if ROW > NX
#define TAIL 0              /* the last vector of a row ends in its padding */
#define NXV ((NX + LANES - 1) / LANES * LANES)
#else
#define TAIL (NX % LANES)   /* values of a row that do not fill a vector */
#define NXV (NX - TAIL)
#endif

#define INLINE static inline __attribute__((always_inline))

INLINE vf load(const real *p) { return *(const vf_any *)p; }
INLINE void store(real *p, vf v) { *(vf_any *)p = v; }
INLINE vf bc(real s) { return (vf){0} + s; }
INLINE vf vand(vf a, vi m) { return (vf)((vi)a & m); }
/* Load once what several operations take: some compilers let each of them load it, and loads are what runs short. */
#if defined(__x86_64__) && VECTOR_BYTES == 64
#define IN_REGISTER(v) __asm__("" : "+v"(v))
#elif defined(__x86_64__)
#define IN_REGISTER(v) __asm__("" : "+x"(v))
#else
#define IN_REGISTER(v) (void)0
#endif

/* vmax(a, b): a where a > b, else b; so a NaN on either side gives b. vmin likewise.
 * The compiler's own names of the instructions are used, for <immintrin.h> takes longer to read than a kernel. */
#if defined(__AVX__) && VECTOR_BYTES == 32 && !defined(__clang__)
#if REAL_IS_DOUBLE
INLINE vf vsel(vi m, vf a, vf b) { return __builtin_ia32_blendvpd256(b, a, (vf)m); }
INLINE vf vmax(vf a, vf b) { return __builtin_ia32_maxpd256(a, b); }
INLINE vf vmin(vf a, vf b) { return __builtin_ia32_minpd256(a, b); }
INLINE vf vsqrt(vf a) { return __builtin_ia32_sqrtpd256(a); }
#else
INLINE vf vsel(vi m, vf a, vf b) { return __builtin_ia32_blendvps256(b, a, (vf)m); }
INLINE vf vmax(vf a, vf b) { return __builtin_ia32_maxps256(a, b); }
INLINE vf vmin(vf a, vf b) { return __builtin_ia32_minps256(a, b); }
INLINE vf vsqrt(vf a) { return __builtin_ia32_sqrtps256(a); }
#endif
#elif VECTOR_BYTES == 64 && !defined(__clang__)
INLINE vf vsel(vi m, vf a, vf b) { return (vf)((m & (vi)a) | (~m & (vi)b)); }
#define AS_IS 4                                              /* rounding: as it is set */
#if REAL_IS_DOUBLE
INLINE vf vmax(vf a, vf b) { return __builtin_ia32_maxpd512_mask(a, b, a, -1, AS_IS); }
INLINE vf vmin(vf a, vf b) { return __builtin_ia32_minpd512_mask(a, b, a, -1, AS_IS); }
INLINE vf vsqrt(vf a) { return __builtin_ia32_sqrtpd512_mask(a, a, -1, AS_IS); }
#else
INLINE vf vmax(vf a, vf b) { return __builtin_ia32_maxps512_mask(a, b, a, -1, AS_IS); }
INLINE vf vmin(vf a, vf b) { return __builtin_ia32_minps512_mask(a, b, a, -1, AS_IS); }
INLINE vf vsqrt(vf a) { return __builtin_ia32_sqrtps512_mask(a, a, -1, AS_IS); }
#endif
#else
INLINE vf vsel(vi m, vf a, vf b) { return (vf)((m & (vi)a) | (~m & (vi)b)); }
INLINE vf vmax(vf a, vf b) { return vsel(a > b, a, b); }
INLINE vf vmin(vf a, vf b) { return vsel(a < b, a, b); }
INLINE vf vsqrt(vf a) { for (int i = 0; i < LANES; i++) a[i] = (real)sqrt(a[i]); return a; }
#endif

INLINE vf vabs(vf a) { return vsel(a < 0, -a, a); }
INLINE vf vsin(vf a) { for (int i = 0; i < LANES; i++) a[i] = (real)sin(a[i]); return a; }
INLINE vf vcos(vf a) { for (int i = 0; i < LANES; i++) a[i] = (real)cos(a[i]); return a; }

#if REAL_IS_DOUBLE
INLINE vf vexp(vf a) { for (int i = 0; i < LANES; i++) a[i] = exp(a[i]); return a; }
INLINE vf vlog(vf a) { for (int i = 0; i < LANES; i++) a[i] = log(a[i]); return a; }
INLINE vf vtanh(vf a) { for (int i = 0; i < LANES; i++) a[i] = tanh(a[i]); return a; }
#else
/* e^x = 2^n e^r with |r| <= ln 2 / 2; minimax polynomial, relative error below 1.2e-7. NaN passes; beyond 88.37 the
 * result is infinity, below -87.68 it is 0. */
INLINE vf vexp(vf x)
{
    const vf round = bc(12582912.0f);                        /* 1.5 * 2^23: adding it rounds to a whole number */
    vf c = vmax(bc(-88.0f), vmin(bc(89.0f), x));
    vf t = c * 1.44269504f + round;
    vf n = t - round;
    vf r = c - n * 0.693145752f;
    r = r - n * 1.42860677e-6f;
    vf r2 = r * r;
    vf p = (0.5f + 0.166665182f * r) + r2 * ((0.0416662060f + 0.00836891774f * r) + 0.00139505381f * r2);
    p = (1.0f + r) + r2 * p;
    return p * (vf)(((vi)t + 127) << 23);                    /* the low bits of t are n */
}

/* ln x = e ln 2 + ln m with m in [sqrt 1/2, sqrt 2]; minimax polynomial, relative error below 1.2e-7. */
INLINE vf vlog(vf x)
{
    vi e = ((vi)x - 0x3f3504f3) >> 23;
    vf m = (vf)((vi)x - (e << 23));
    vf k = __builtin_convertvector(e, vf);
    vf f = m - 1.0f;
    vf f2 = f * f, f4 = f2 * f2;
    vf p = (0.333333313f - 0.250008225f * f) + f2 * (0.200012267f - 0.166233569f * f)
         + f4 * ((0.142017618f - 0.131601945f * f) + f2 * (0.127615497f - 0.0763442963f * f));
    vf y = f + (f2 * (f * p - 0.5f) + k * 1.42860677e-6f) + k * 0.693145752f;
    y = vsel(x < INFINITY, y, x);                            /* infinity and NaN */
    return vsel(x <= 0, vsel(x < 0, bc(NAN), bc(-INFINITY)), y);
}

INLINE vf vtanh(vf x)
{
    vf a = vabs(x), s = x * x;
    vf small = x + x * s * (-0.333332837f + s * (0.133314908f + s * (-0.0537434965f + s * (0.0206505787f
             - 0.00571703678f * s))));
    vf large = 1.0f - 2.0f / (vexp(2.0f * a) + 1.0f);
    return vsel(a < 0.625f, small, vsel(x < 0, -large, large));
}
#endif

INLINE double vsum(vf a) { double s = 0; for (int i = 0; i < LANES; i++) s += (double)a[i]; return s; }

/* Row that a row outside the domain stands for. */
INLINE long source_y(long y, long ny)
{
#if BORDER_Y == 1
    return y < 0 ? y + ny : y >= ny ? y - ny : y;
#elif BORDER_Y == 2
    return y < 0 ? -1 - y : y >= ny ? 2 * ny - 1 - y : y;
#else
    return y < 0 ? 0 : y >= ny ? ny - 1 : y;
#endif
}

#if BORDER_X == 1
#define WEST(k) (CELLS - (k))       /* column that the k-th ghost west of the domain stands for */
#define EAST(k) ((k) - 1)
#elif BORDER_X == 2
#define WEST(k) ((k) - 1)
#define EAST(k) (CELLS - (k))
#else
#define WEST(k) 0
#define EAST(k) (CELLS - 1)
#endif

typedef struct { real *p; int64_t batch, row; } Array;      /* first value, strides in values; columns are dense */
