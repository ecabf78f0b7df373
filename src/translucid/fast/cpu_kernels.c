/* What a decoding step does most, on a CPU: matrix multiplication in float32 and in 8 bits,
   attention of the newest tokens, sums with norms. `fast/cpu_kernels.py` calls it; the plain
   counterparts are in `fast/plain_kernels.py` and `fast/packed_linear.py`.

   The file contains the kernels once and includes itself for each instruction set (`PATH`). A path
   defines a few operations on vectors; the rest uses the vector types of GCC and Clang. Python
   chooses the path. Sums in 8 bits are exact, so all paths have the same 8-bit results, bit by bit.

   There is no Python and no torch in here: pointers and sizes come in, so one library serves all
   versions of both. */

#ifndef PATH

#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define UNROLL _Pragma("GCC unroll 8")

/* Threads: those of torch. It loads OpenMP's runtime for all to see; a second one would fight with
   it for the processors. Without that runtime, Python does not use these kernels. */

typedef void (*Work)(void *job, long thread, long first, long last);
typedef struct {
    Work work;
    void *job;
    long count;
} Shared;

static void (*gomp_parallel)(void (*)(void *), void *, unsigned, unsigned);
static int (*thread_number)(void);
static int (*thread_count)(void);

__attribute__((constructor)) static void find_threads(void) {
    *(void **)&gomp_parallel = dlsym(RTLD_DEFAULT, "GOMP_parallel");
    *(void **)&thread_number = dlsym(RTLD_DEFAULT, "omp_get_thread_num");
    *(void **)&thread_count = dlsym(RTLD_DEFAULT, "omp_get_num_threads");
}

int shares_threads(void) { return gomp_parallel && thread_number && thread_count; }

static void one_share(void *given) {
    Shared *shared = given;
    long number = thread_number(), threads = thread_count(), count = shared->count;
    shared->work(shared->job, number, count * number / threads, count * (number + 1) / threads);
}

static void in_parallel(Work work, void *job, long count, long threads) {
    if (threads > count) threads = count;
    if (threads <= 1 || !shares_threads()) {
        work(job, 0, 0, count);
        return;
    }
    Shared shared = {work, job, count};
    gomp_parallel(one_share, &shared, (unsigned)threads, 0);
}

/* The kernels of one instruction set. Each does the part from `first` to `last` of a job below. */

typedef struct {
    const char *name;
    long outputs, group; /* how weights are stored: see Linear */
    int (*supported)(void);
    Work round, multiply, normalise, attend;
} Path;

/* Matrix multiplication, y = W x + b. Weights are stored in blocks of `path->outputs` outputs, so
   that they are read in one run. Within a block one input of all outputs comes after the other, in
   8 bits `path->group` of them at a time: what one instruction multiplies and adds. In 8 bits

       y_n = scale_n step (sum_k u_k q_nk - zero sum_k q_nk) + b_n, x_k about step (u_k - zero)  */

typedef struct {
    const Path *path;
    const void *weights; /* float32 (blocks, inputs, outputs), or
                            q (blocks, inputs / group, outputs, group) */
    const float *bias;   /* this and the two below are filled up to whole blocks */
    const float *scales; /* 0: float32 */
    const int32_t *sums; /* of q over the inputs */
    long inputs, outputs, relu;
} Linear;

enum { RUN = 16 };     /* 8-bit inputs are filled up to a multiple of this */
enum { CHUNK = 96 };   /* rows at once in the cache */
enum { AHEAD = 2048 }; /* bytes of weights asked for early: few rows wait for them */

typedef struct {
    const Linear *layer;
    const float *x;
    float *y;
    float *steps; /* this and the two below are 0 in float32 */
    int32_t *zeros;
    void *u; /* (rows, padded) */
    long rows, padded;
} Product;

/* norm(x + branch) of every row; with keep_sum, x becomes the sum. Without branch or shift: 0 */

typedef struct {
    const Path *path;
    float *x, *y;
    const float *branch, *gain, *shift;
    long width, keep_sum, rms;
    double eps;
} Norm;

/* Attention of one token in each row (sources * beams) over the slots that it sees. Its keys and
   values, if given, go to the slot `start` + beam first. Strides count floats, those of `seen`
   bytes. */

typedef struct {
    const Path *path;
    const float *q, *new_keys, *new_values;
    float *keys, *values, *out;
    const uint8_t *seen; /* 0: all */
    int32_t *room;       /* for each thread, the slots that a beam sees and their weights */
    long q_row, new_row, at_source, at_head, at_slot, seen_source, seen_beam;
    long sources, beams, heads, kv_heads, d, slots, start;
    double scale;
} Attention;

static long room_of(const Attention *job) { return job->slots + 16; } /* to fill the last vector */

static void write_newest(const Attention *job, long source) {
    for (long beam = 0; beam < job->beams; beam++)
        for (long head = 0; head < job->kv_heads; head++) {
            long to = source * job->at_source + head * job->at_head;
            to += (job->start + beam) * job->at_slot;
            long from = (source * job->beams + beam) * job->new_row + head * job->d;
            memcpy(job->keys + to, job->new_keys + from, (size_t)job->d * sizeof(float));
            memcpy(job->values + to, job->new_values + from, (size_t)job->d * sizeof(float));
        }
}

/* The paths. Names that differ from path to path end in its number. */

#define AVX2 1
#define AVX_VNNI 2
#define AVX512_VNNI 3
#define NEON 4
#define NEON_DOT 5

#define WITH(name, path) name##_##path
#define OF(path, name) WITH(name, path)
#define V OF(PATH, V)
#define I OF(PATH, I)
#define Bytes OF(PATH, Bytes)
#define can_run OF(PATH, can_run)
#define load OF(PATH, load)
#define load_part OF(PATH, load_part)
#define store OF(PATH, store)
#define store_part OF(PATH, store_part)
#define below OF(PATH, below)
#define smaller OF(PATH, smaller)
#define larger OF(PATH, larger)
#define nearest OF(PATH, nearest)
#define added_up OF(PATH, added_up)
#define weights_at OF(PATH, weights_at)
#define dot OF(PATH, dot)
#define exponential OF(PATH, exponential)
#define round_rows OF(PATH, round_rows)
#define scale_block OF(PATH, scale_block)
#define of_int8_block OF(PATH, of_int8_block)
#define of_float_block OF(PATH, of_float_block)
#define multiply_blocks OF(PATH, multiply_blocks)
#define normalise_rows OF(PATH, normalise_rows)
#define of_head OF(PATH, of_head)
#define attend_sources OF(PATH, attend_sources)

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#define PATH AVX2
#include "cpu_kernels.c"
#if __GNUC__ >= 11 || __clang_major__ >= 12
#define HAS_AVX_VNNI
#define PATH AVX_VNNI
#include "cpu_kernels.c"
#endif
#define PATH AVX512_VNNI
#include "cpu_kernels.c"
#elif defined(__aarch64__) && defined(__GNUC__)
#include <arm_neon.h>
#ifdef __linux__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#define PATH NEON
#include "cpu_kernels.c"
#if defined(__ARM_FEATURE_DOTPROD) || !defined(__clang__) || __clang_major__ >= 16
#define HAS_NEON_DOT
#define PATH NEON_DOT
#include "cpu_kernels.c"
#endif
#endif

/* All paths that were compiled, the fastest first, then 0. */
const Path *const paths[] = {
#if defined(__x86_64__) && defined(__GNUC__)
    &OF(AVX512_VNNI, path),
#ifdef HAS_AVX_VNNI
    &OF(AVX_VNNI, path),
#endif
    &OF(AVX2, path),
#elif defined(__aarch64__) && defined(__GNUC__)
#ifdef HAS_NEON_DOT
    &OF(NEON_DOT, path),
#endif
    &OF(NEON, path),
#endif
    0,
};

/* y (rows, outputs) = W x + b of x (rows, inputs). 0: no memory */
int linear(const Linear *layer, const float *x, long rows, float *y, long threads) {
    const Path *path = layer->path;
    long padded = (layer->inputs + RUN - 1) / RUN * RUN;
    long blocks = (layer->outputs + path->outputs - 1) / path->outputs;
    Product job = {layer, x, y, 0, 0, 0, rows, padded};
    if (layer->scales) {
        job.steps = malloc((size_t)rows * (size_t)(2 * padded + 8) + 1);
        if (!job.steps) return 0;
        job.zeros = (int32_t *)(job.steps + rows);
        job.u = job.zeros + rows;
        in_parallel(path->round, &job, rows, rows < 32 ? 1 : threads);
    }
    in_parallel(path->multiply, &job, blocks, threads);
    free(job.steps);
    return 1;
}

void add_norm(const Norm *job, long rows, long threads) {
    Work work = job->path->normalise;
    in_parallel(work, (void *)job, rows, rows * job->width < 1 << 16 ? 1 : threads);
}

/* 0: no memory */
int attend_newest(Attention *job, long threads) {
    job->room = malloc((size_t)threads * (size_t)room_of(job) * 2 * sizeof(int32_t));
    if (!job->room) return 0;
    in_parallel(job->path->attend, job, job->sources, threads);
    free(job->room);
    return 1;
}

/* All layers of a step, one after the other: what Python would call one by one. */

enum { LINEAR, NORM, ATTEND_NEWEST, ATTEND_SOURCE };

typedef struct {
    long kind;
    void *what; /* Linear, Norm, Attention */
    const float *x;
    float *y;
} Operation;

/* The newest keys and values go to the slots from `start` on. 0: no memory */
int run_layers(const Operation *all, long count, long rows, long start, long threads) {
    int done = 1;
    for (const Operation *op = all; done && op < all + count; op++)
        switch (op->kind) {
        case LINEAR: done = linear(op->what, op->x, rows, op->y, threads); break;
        case NORM: add_norm(op->what, rows, threads); break;
        case ATTEND_NEWEST:
            ((Attention *)op->what)->start = start;
            ((Attention *)op->what)->slots = start + ((Attention *)op->what)->beams;
            /* fall through */
        case ATTEND_SOURCE: done = attend_newest(op->what, threads); break;
        }
    return done;
}

#else /* with PATH: the kernels */

/* What differs. A vector has LANES numbers, a block of weights COLUMNS vectors; the sums of ROWS
   rows of a block stay in registers. `dot` adds to each sum the products of GROUP inputs, which are
   stored as Byte, less SHIFT. No product or sum of them may overflow:

   - AVX2 adds two products of bytes in 16 bits, at most 32,767. Inputs are at most 255, so two
     neighboring weights of the same sign may be at most 128 together: 255 * 128 = 32,640.
   - NEON without dot product takes inputs from -128 to 127: 2 * 128 * 119 = 30,464.
   - VNNI and the dot product of NEON add four products in 32 bits. */

#if PATH == AVX512_VNNI

#define TITLE "avx512-vnni"
#define FAST __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")))
#define LANES 16
#define COLUMNS 4
#define GROUP 4
#define SHIFT 0
#define Byte uint8_t

static int can_run(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

#elif PATH == AVX_VNNI

#define TITLE "avx-vnni"
#ifdef VNNI_OF_AVX512 /* the same instruction as AVX-512 has it, to test this path there */
#define FAST __attribute__((target("avx2,fma,avx512f,avx512vl,avx512vnni")))
#define _mm256_dpbusd_avx_epi32 _mm256_dpbusd_epi32
static int can_run(void) { return __builtin_cpu_supports("avx512vnni"); }
#else
#define FAST __attribute__((target("avx2,fma,avxvnni")))
static int can_run(void) { /* not every compiler's __builtin_cpu_supports knows it */
    unsigned a = 0, b, c, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 4 & 1;
}
#endif
#define LANES 8
#define COLUMNS 2
#define GROUP 4
#define SHIFT 0
#define Byte uint8_t

#elif PATH == AVX2

#define TITLE "avx2"
#define FAST __attribute__((target("avx2,fma")))
#define LANES 8
#define COLUMNS 2
#define GROUP 4
#define SHIFT 0
#define Byte uint8_t

static int can_run(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

#else

#define TITLE (PATH == NEON_DOT ? "neon-dot" : "neon")
#define LANES 4
#define COLUMNS 4
#define GROUP 4
#define SHIFT 128
#define Byte int8_t

#if PATH == NEON || defined(__ARM_FEATURE_DOTPROD)
#define FAST
static int can_run(void) { return 1; }
#else
#define FAST __attribute__((target("arch=armv8.2-a+dotprod")))
#ifdef __linux__
static int can_run(void) { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
#else
static int can_run(void) { return 0; }
#endif
#endif

#endif

#define INLINE FAST static inline __attribute__((always_inline))
#define ROWS 6
#define OUTPUTS (LANES * COLUMNS)

typedef float V __attribute__((vector_size(4 * LANES)));
typedef int32_t I __attribute__((vector_size(4 * LANES)));
typedef Byte Bytes __attribute__((vector_size(sizeof(Byte) * LANES)));

INLINE V load(const float *from) {
    V v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void store(float *to, V v) { memcpy(to, &v, sizeof v); }

INLINE I below(long count) { /* all bits set in the first `count` lanes */
    static const int32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    I lanes;
    memcpy(&lanes, numbers, sizeof lanes);
    return lanes < (int32_t)(count < LANES ? count : LANES);
}

#if LANES == 16

INLINE V load_part(const float *from, long count) { /* the first `count` lanes; the others are 0 */
    if (count >= LANES) return load(from);
    return _mm512_maskz_loadu_ps(_mm512_movepi32_mask((__m512i)below(count)), from);
}
INLINE void store_part(float *to, long count, V v) {
    if (count >= LANES) store(to, v);
    else _mm512_mask_storeu_ps(to, _mm512_movepi32_mask((__m512i)below(count)), v);
}
INLINE V smaller(V a, V b) { return _mm512_min_ps(a, b); }
INLINE V larger(V a, V b) { return _mm512_max_ps(a, b); } /* NaN if b is */
INLINE I nearest(V v) { return (I)_mm512_cvtps_epi32(v); }
INLINE float added_up(V v) { return _mm512_reduce_add_ps(v); }
INLINE I weights_at(const int8_t *from) { return (I)_mm512_loadu_si512(from); }
INLINE I dot(I sums, I inputs, I weights) {
    return (I)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)inputs, (__m512i)weights);
}

#elif LANES == 8

INLINE V load_part(const float *from, long count) {
    if (count >= LANES) return load(from);
    return _mm256_maskload_ps(from, (__m256i)below(count));
}
INLINE void store_part(float *to, long count, V v) {
    if (count >= LANES) store(to, v);
    else _mm256_maskstore_ps(to, (__m256i)below(count), v);
}
INLINE V smaller(V a, V b) { return _mm256_min_ps(a, b); }
INLINE V larger(V a, V b) { return _mm256_max_ps(a, b); }
INLINE I nearest(V v) { return (I)_mm256_cvtps_epi32(v); }
INLINE float added_up(V v) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
INLINE I weights_at(const int8_t *from) { return (I)_mm256_loadu_si256((const __m256i *)from); }
INLINE I dot(I sums, I inputs, I weights) {
#if PATH == AVX2
    __m256i pairs = _mm256_maddubs_epi16((__m256i)inputs, (__m256i)weights);
    return sums + (I)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
    return (I)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)inputs, (__m256i)weights);
#endif
}

#else

INLINE V load_part(const float *from, long count) {
    V v = {0};
    if (count >= LANES) return load(from);
    if (count > 0) memcpy(&v, from, (size_t)count * sizeof(float));
    return v;
}
INLINE void store_part(float *to, long count, V v) {
    if (count >= LANES) store(to, v);
    else if (count > 0) memcpy(to, &v, (size_t)count * sizeof(float));
}
INLINE V smaller(V a, V b) { return vminq_f32(a, b); }
INLINE V larger(V a, V b) { return vmaxq_f32(a, b); }
INLINE I nearest(V v) { return vcvtnq_s32_f32(v); }
INLINE float added_up(V v) { return vaddvq_f32(v); }
INLINE I weights_at(const int8_t *from) { return (I)vld1q_s8(from); }
INLINE I dot(I sums, I inputs, I weights) {
#if PATH == NEON_DOT
    return vdotq_s32(sums, (int8x16_t)inputs, (int8x16_t)weights);
#else
    int16x8_t first = vmull_s8(vget_low_s8((int8x16_t)inputs), vget_low_s8((int8x16_t)weights));
    int16x8_t second = vmull_high_s8((int8x16_t)inputs, (int8x16_t)weights);
    return vpadalq_s16(sums, vpaddq_s16(first, second));
#endif
}

#endif

INLINE V exponential(V x) { /* x <= 0; within 2 units in the last place, 0 below e^-87 */
    static const float over[] = {1 / 5040.f, 1 / 720.f, 1 / 120.f, 1 / 24.f, 1 / 6.f, 0.5f, 1, 1};
    I whole = nearest(x * 1.44269504f);
    V n = __builtin_convertvector(whole, V);
    V r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    V y = (V){0} + over[0];
    UNROLL for (int i = 1; i < 8; i++) y = y * r + over[i];
    V power = (V)((whole + 127) << 23);
    return (V)((I)(y * power) & ~(x < -87.0f)); /* NaN stays */
}

FAST static void round_rows(void *given, long thread, long first, long last) {
    (void)thread;
    Product *job = given;
    long inputs = job->layer->inputs, padded = job->padded;
    for (long row = first; row < last; row++) {
        const float *x = job->x + row * inputs;
        Byte *u = (Byte *)job->u + row * padded;
        V low = {0}, high = {0}, finite = {0};
        for (long k = 0; k < inputs; k += LANES) {
            V part = load_part(x + k, inputs - k);
            low = smaller(low, part);
            high = larger(high, part);
            finite += part * 0.0f; /* otherwise NaN */
        }
        float least = 0, most = 0;
        for (int lane = 0; lane < LANES; lane++) {
            least = low[lane] < least ? low[lane] : least;
            most = high[lane] > most ? high[lane] : most;
        }
        float step = (most - least) / 255.0f + added_up(finite);
        float inverse = step > 0 && step < INFINITY ? 1.0f / step : 0.0f;
        int32_t zero = inverse > 0 ? (int32_t)nearbyintf(-least * inverse) : 0;
        job->steps[row] = step < INFINITY ? step : NAN; /* and so are the outputs */
        job->zeros[row] = zero - SHIFT;
        for (long k = 0; k < padded; k += LANES) {
            I whole = nearest(load_part(x + k, inputs - k) * inverse) + zero;
            whole += whole > 255; /* 256 becomes 255 */
            Bytes bytes = __builtin_convertvector(whole - SHIFT, Bytes);
            memcpy(u + k, &bytes, sizeof bytes);
        }
    }
}

/* Apart from the sums: together they would want more registers than there are. */
FAST static __attribute__((noinline)) void scale_block(
    const Product *job, long block, long row, long rows, const int32_t *whole
) {
    const Linear *layer = job->layer;
    for (long n = block * OUTPUTS; n < (block + 1) * OUTPUTS; n += LANES, whole += LANES) {
        V scales = load(layer->scales + n), bias = load(layer->bias + n);
        I sums;
        memcpy(&sums, layer->sums + n, sizeof sums);
        for (long i = 0; i < rows; i++) {
            I exact;
            memcpy(&exact, whole + i * OUTPUTS, sizeof exact);
            exact -= sums * job->zeros[row + i];
            V y = __builtin_convertvector(exact, V) * (scales * job->steps[row + i]) + bias;
            if (layer->relu) y = larger((V){0}, y); /* NaN stays */
            store_part(job->y + (row + i) * layer->outputs + n, layer->outputs - n, y);
        }
    }
}

INLINE void of_int8_block(const Product *job, long block, long row, const int rows) {
    long padded = job->padded;
    const int8_t *weights = (const int8_t *)job->layer->weights + block * OUTPUTS * padded;
    const Byte *u = (const Byte *)job->u + row * padded;
    I sum[ROWS][COLUMNS]; /* all loops over it are unrolled, so that it stays in registers */
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < COLUMNS; j++) sum[i][j] = (I){0};
    for (long k = 0; k < padded; k += GROUP, weights += GROUP * OUTPUTS) {
        I q[COLUMNS];
        UNROLL for (int b = 0; b < GROUP * OUTPUTS; b += 64) __builtin_prefetch(weights + AHEAD + b);
        UNROLL for (int j = 0; j < COLUMNS; j++) q[j] = weights_at(weights + j * GROUP * LANES);
        UNROLL for (int i = 0; i < rows; i++) {
            int32_t group;
            memcpy(&group, u + i * padded + k, sizeof group);
            I all = (I){0} + group;
            UNROLL for (int j = 0; j < COLUMNS; j++) sum[i][j] = dot(sum[i][j], all, q[j]);
        }
    }
    int32_t whole[ROWS * OUTPUTS];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < COLUMNS; j++)
            memcpy(whole + i * OUTPUTS + j * LANES, &sum[i][j], sizeof(I));
    scale_block(job, block, row, rows, whole);
}

INLINE void of_float_block(const Product *job, long block, long row, const int rows) {
    const Linear *layer = job->layer;
    long inputs = layer->inputs, outputs = layer->outputs;
    const float *weights = (const float *)layer->weights + block * OUTPUTS * inputs;
    const float *x = job->x + row * inputs;
    V sum[ROWS][COLUMNS];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < COLUMNS; j++)
            sum[i][j] = load(layer->bias + block * OUTPUTS + j * LANES);
    for (long k = 0; k < inputs; k++, weights += OUTPUTS) {
        V w[COLUMNS];
        UNROLL for (int n = 0; n < OUTPUTS; n += 16) __builtin_prefetch(weights + AHEAD / 4 + n);
        UNROLL for (int j = 0; j < COLUMNS; j++) w[j] = load(weights + j * LANES);
        UNROLL for (int i = 0; i < rows; i++)
            UNROLL for (int j = 0; j < COLUMNS; j++) sum[i][j] += x[i * inputs + k] * w[j];
    }
    V least = (V){0} + (layer->relu ? 0.0f : -INFINITY);
    UNROLL for (int j = 0; j < COLUMNS; j++) {
        long n = block * OUTPUTS + j * LANES;
        UNROLL for (int i = 0; i < rows; i++) /* NaN stays */
            store_part(job->y + (row + i) * outputs + n, outputs - n, larger(least, sum[i][j]));
    }
}

/* Numbers of rows that the compiler knows stay in registers. */
#define ALL_ROWS(of_block)                                                                         \
    for (; row + ROWS <= end; row += ROWS) of_block(job, block, row, ROWS);                        \
    switch (end - row) {                                                                           \
    case 1: of_block(job, block, row, 1); break;                                                   \
    case 2: of_block(job, block, row, 2); break;                                                   \
    case 3: of_block(job, block, row, 3); break;                                                   \
    case 4: of_block(job, block, row, 4); break;                                                   \
    case 5: of_block(job, block, row, 5); break;                                                   \
    }

FAST static void multiply_blocks(void *given, long thread, long first, long last) {
    (void)thread;
    Product *job = given;
    for (long start = 0; start < job->rows; start += CHUNK) {
        long end = start + CHUNK < job->rows ? start + CHUNK : job->rows;
        for (long block = first; block < last; block++) {
            long row = start;
            if (job->u) {
                ALL_ROWS(of_int8_block)
            } else {
                ALL_ROWS(of_float_block)
            }
        }
    }
}

FAST static void normalise_rows(void *given, long thread, long first, long last) {
    (void)thread;
    const Norm *job = given;
    long width = job->width;
    for (long row = first; row < last; row++) {
        float *x = job->x + row * width, *y = job->y + row * width;
        V sum = {0}, squares = {0};
        for (long k = 0; k < width; k += LANES) {
            V part = load_part(x + k, width - k);
            if (job->branch) {
                part += load_part(job->branch + row * width + k, width - k);
                if (job->keep_sum) store_part(x + k, width - k, part);
            }
            store_part(y + k, width - k, part);
            sum += part;
        }
        float mean = job->rms ? 0.0f : added_up(sum) / (float)width;
        for (long k = 0; k < width; k += LANES) {
            V part = load_part(y + k, width - k) - mean;
            part = (V)((I)part & below(width - k));
            squares += part * part;
        }
        float variance = added_up(squares) / (float)width;
        float inverse = (float)(1.0 / sqrt((double)variance + job->eps));
        for (long k = 0; k < width; k += LANES) {
            V part = load_part(y + k, width - k) - mean, shift = {0};
            V gain = load_part(job->gain + k, width - k) * inverse;
            if (job->shift) shift = load_part(job->shift + k, width - k);
            store_part(y + k, width - k, part * gain + shift);
        }
    }
}

INLINE void of_head(const Attention *job, const float *q, const float *keys, const float *values,
                    float *out, const int32_t *slots, long count, float *weights) {
    long d = job->d, at_slot = job->at_slot;
    float most = -INFINITY;
    for (long i = 0; i < count; i++) {
        const float *key = keys + slots[i] * at_slot;
        V products = {0};
        for (long c = 0; c < d; c += LANES)
            products += load_part(q + c, d - c) * load_part(key + c, d - c);
        weights[i] = added_up(products) * (float)job->scale;
        most = weights[i] > most || weights[i] != weights[i] ? weights[i] : most;
    }
    for (int i = 0; i < LANES; i++) weights[count + i] = -INFINITY;
    V sums = {0};
    for (long i = 0; i < count; i += LANES) {
        V part = exponential(load(weights + i) - most);
        store(weights + i, part);
        sums += part;
    }
    float sum = added_up(sums), inverse = count ? 1.0f / sum : 0.0f; /* sees nothing: zeros */
    for (long c = 0; c < d; c += 4 * LANES) {
        V mixed[4];
        UNROLL for (int j = 0; j < 4; j++) mixed[j] = (V){0};
        for (long i = 0; i < count; i++) {
            const float *value = values + slots[i] * at_slot + c;
            UNROLL for (int j = 0; j < 4; j++)
                mixed[j] += weights[i] * load_part(value + j * LANES, d - c - j * LANES);
        }
        UNROLL for (int j = 0; j < 4; j++)
            store_part(out + c + j * LANES, d - c - j * LANES, mixed[j] * inverse);
    }
}

FAST static void attend_sources(void *given, long thread, long first, long last) {
    const Attention *job = given;
    int32_t *slots = job->room + thread * 2 * room_of(job);
    float *weights = (float *)(slots + room_of(job));
    long d = job->d, group = job->heads / job->kv_heads;
    for (long source = first; source < last; source++) {
        if (job->new_keys) write_newest(job, source);
        for (long beam = 0; beam < job->beams; beam++) {
            const uint8_t *seen = job->seen;
            if (seen) seen += source * job->seen_source + beam * job->seen_beam;
            long count = 0, row = source * job->beams + beam;
            for (int32_t slot = 0; slot < job->slots; slot++) {
                slots[count] = slot;
                count += !seen || seen[slot];
            }
            for (long head = 0; head < job->heads; head++) {
                long at = source * job->at_source + head / group * job->at_head;
                of_head(job, job->q + row * job->q_row + head * d, job->keys + at,
                        job->values + at, job->out + (row * job->heads + head) * d, slots, count,
                        weights);
            }
        }
    }
}

static const Path OF(PATH, path) = {
    TITLE, OUTPUTS, GROUP, can_run, round_rows, multiply_blocks, normalise_rows, attend_sources,
};

#undef PATH
#undef FAST
#undef INLINE
#undef TITLE
#undef LANES
#undef COLUMNS
#undef ROWS
#undef OUTPUTS
#undef GROUP
#undef SHIFT
#undef Byte
#undef ALL_ROWS

#endif
