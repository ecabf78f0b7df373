/* What a decoding step does most, for processors with AVX-512 and VNNI: matrix multiplication in
   float32 and in 8 bits, attention of the newest tokens, sums with norms. `fast/cpu_kernels.py` calls it; the
   plain counterparts are in `fast/plain_kernels.py` and `fast/packed_linear.py`.

   No Python and no torch in here: pointers and sizes come in, so one file serves all versions of
   both. Where a compiler or a processor lacks the instructions, `supported` says so. */

#define _GNU_SOURCE
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__)

#include <dlfcn.h>
#include <immintrin.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FAST __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")))
#define INLINE FAST static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

int supported(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

/* Threads: those of torch. It loads OpenMP's runtime for all to see; a second one would fight with
   it for the processors. Where there is none, one thread does all. */

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

static void one_share(void *given) {
    Shared *shared = given;
    long number = thread_number(), threads = thread_count(), count = shared->count;
    shared->work(shared->job, number, count * number / threads, count * (number + 1) / threads);
}

static void in_parallel(Work work, void *job, long count, long threads) {
    if (threads > count) threads = count;
    if (threads <= 1 || !gomp_parallel || !thread_number || !thread_count) {
        work(job, 0, 0, count);
        return;
    }
    Shared shared = {work, job, count};
    gomp_parallel(one_share, &shared, (unsigned)threads, 0);
}

/* Matrix multiplication, y = W x + b. Weights lie in blocks of 64 outputs, so that they are read in
   one run; within a block one input of all 64 comes after the other, in 8 bits four of them at a
   time: what one instruction multiplies and adds. In 8 bits

       y_n = scale_n step (sum_k u_k q_nk - zero sum_k q_nk) + b_n, x_k about step (u_k - zero)  */

enum { OUTPUTS = 64 };
enum { ROWS = 6, CHUNK = 96 }; /* rows at once: in registers, in the cache */
enum { AHEAD = 2048 };         /* bytes of weights asked for early: few rows wait for them */

typedef struct {
    const void *weights; /* float32 (blocks, inputs, 64), or q (blocks, inputs / 4, 64, 4) */
    const float *bias;   /* this and the two below are filled up to whole blocks */
    const float *scales; /* 0: float32 */
    const int32_t *sums; /* of q over the inputs */
    long inputs, outputs, relu;
} Linear;

typedef struct {
    const Linear *layer;
    const float *x;
    float *y;
    uint8_t *u; /* (rows, padded) */
    float *steps;
    int32_t *zeros;
    long rows, padded;
} Product;

INLINE __mmask16 first_of(long left) {
    return left >= 16 ? 0xffff : left > 0 ? (__mmask16)((1u << left) - 1) : 0;
}

FAST static void round_rows(void *given, long thread, long first, long last) {
    (void)thread;
    Product *job = given;
    long inputs = job->layer->inputs, padded = job->padded;
    for (long row = first; row < last; row++) {
        const float *x = job->x + row * inputs;
        uint8_t *u = job->u + row * padded;
        __m512 low = _mm512_setzero_ps(), high = low;
        __mmask16 unordered = 0;
        for (long k = 0; k < inputs; k += 16) {
            __m512 part = _mm512_maskz_loadu_ps(first_of(inputs - k), x + k);
            unordered |= _mm512_cmp_ps_mask(part, part, _CMP_UNORD_Q);
            low = _mm512_min_ps(low, part);
            high = _mm512_max_ps(high, part);
        }
        float least = _mm512_reduce_min_ps(low), most = _mm512_reduce_max_ps(high);
        float step = (most - least) / 255.0f;
        float inverse = step > 0 && step < INFINITY ? 1.0f / step : 0.0f;
        int32_t zero = (int32_t)nearbyintf(-least * inverse);
        job->steps[row] = unordered || step == INFINITY ? NAN : step; /* and so are the outputs */
        job->zeros[row] = zero;
        __m512i shift = _mm512_set1_epi32(zero), none = _mm512_setzero_si512();
        for (long k = 0; k < padded; k += 16) {
            __m512 part = _mm512_maskz_loadu_ps(first_of(inputs - k), x + k);
            __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(part, _mm512_set1_ps(inverse)));
            whole = _mm512_max_epi32(_mm512_add_epi32(whole, shift), none);
            _mm_storeu_si128((__m128i *)(u + k), _mm512_cvtusepi32_epi8(whole));
        }
    }
}

/* Apart from the sums: together they would want more registers than there are. */
FAST static __attribute__((noinline)) void scale_block(
    const Product *job, long block, long row, long rows, const int32_t *whole
) {
    const Linear *layer = job->layer;
    for (long n = block * OUTPUTS; n < (block + 1) * OUTPUTS; n += 16, whole += 16) {
        __mmask16 here = first_of(layer->outputs - n);
        __m512i sums = _mm512_loadu_si512(layer->sums + n);
        __m512 scales = _mm512_loadu_ps(layer->scales + n), bias = _mm512_loadu_ps(layer->bias + n);
        for (long i = 0; i < rows; i++) {
            __m512i shift = _mm512_mullo_epi32(sums, _mm512_set1_epi32(job->zeros[row + i]));
            __m512i exact = _mm512_sub_epi32(_mm512_loadu_si512(whole + i * OUTPUTS), shift);
            __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(job->steps[row + i]));
            __m512 y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(exact), scale, bias);
            if (layer->relu) y = _mm512_max_ps(_mm512_setzero_ps(), y); /* NaN stays */
            _mm512_mask_storeu_ps(job->y + (row + i) * layer->outputs + n, here, y);
        }
    }
}

INLINE void of_int8_block(const Product *job, long block, long row, const int rows) {
    const Linear *layer = job->layer;
    long padded = job->padded;
    const int8_t *weights = (const int8_t *)layer->weights + block * OUTPUTS * padded;
    const uint8_t *u = job->u + row * padded;
    __m512i sum[ROWS][4]; /* all loops over it are unrolled, so that it stays in registers */
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < 4; j++) sum[i][j] = _mm512_setzero_si512();
    for (long k = 0; k < padded; k += 4, weights += 4 * OUTPUTS) {
        __m512i q[4];
        UNROLL for (int j = 0; j < 4; j++) _mm_prefetch(weights + AHEAD + 64 * j, _MM_HINT_T0);
        UNROLL for (int j = 0; j < 4; j++) q[j] = _mm512_loadu_si512(weights + 64 * j);
        UNROLL for (int i = 0; i < rows; i++) {
            int32_t four;
            memcpy(&four, u + i * padded + k, 4);
            __m512i all = _mm512_set1_epi32(four);
            UNROLL for (int j = 0; j < 4; j++)
                sum[i][j] = _mm512_dpbusd_epi32(sum[i][j], all, q[j]);
        }
    }
    int32_t whole[ROWS * OUTPUTS];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < 4; j++)
            _mm512_storeu_si512(whole + i * OUTPUTS + 16 * j, sum[i][j]);
    scale_block(job, block, row, rows, whole);
}

INLINE void of_float_block(const Product *job, long block, long row, const int rows) {
    const Linear *layer = job->layer;
    long inputs = layer->inputs, outputs = layer->outputs;
    const float *weights = (const float *)layer->weights + block * OUTPUTS * inputs;
    const float *x = job->x + row * inputs;
    __m512 sum[ROWS][4];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < 4; j++)
            sum[i][j] = _mm512_loadu_ps(layer->bias + block * OUTPUTS + 16 * j);
    for (long k = 0; k < inputs; k++, weights += OUTPUTS) {
        __m512 w[4];
        UNROLL for (int j = 0; j < 4; j++)
            _mm_prefetch((const char *)(weights + 16 * j) + AHEAD, _MM_HINT_T0);
        UNROLL for (int j = 0; j < 4; j++) w[j] = _mm512_loadu_ps(weights + 16 * j);
        UNROLL for (int i = 0; i < rows; i++) {
            __m512 all = _mm512_set1_ps(x[i * inputs + k]);
            UNROLL for (int j = 0; j < 4; j++) sum[i][j] = _mm512_fmadd_ps(all, w[j], sum[i][j]);
        }
    }
    __m512 least = _mm512_set1_ps(layer->relu ? 0.0f : -INFINITY);
    UNROLL for (int j = 0; j < 4; j++) {
        long n = block * OUTPUTS + 16 * j;
        __mmask16 here = first_of(outputs - n);
        UNROLL for (int i = 0; i < rows; i++) {
            __m512 y = _mm512_max_ps(least, sum[i][j]); /* NaN stays */
            _mm512_mask_storeu_ps(job->y + (row + i) * outputs + n, here, y);
        }
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

/* y (rows, outputs) = W x + b of x (rows, inputs). 0: no memory */
int linear(const Linear *layer, const float *x, long rows, float *y, long threads) {
    long padded = (layer->inputs + 15) / 16 * 16, blocks = (layer->outputs + OUTPUTS - 1) / OUTPUTS;
    Product job = {layer, x, y, 0, 0, 0, rows, padded};
    if (layer->scales) {
        job.u = malloc((size_t)rows * (size_t)(padded + 8) + 1);
        if (!job.u) return 0;
        job.steps = (float *)(job.u + rows * padded);
        job.zeros = (int32_t *)(job.steps + rows);
        in_parallel(round_rows, &job, rows, rows < 32 ? 1 : threads);
    }
    in_parallel(multiply_blocks, &job, blocks, threads);
    free(job.u);
    return 1;
}

/* norm(x + branch) of every row; with keep_sum, x becomes the sum. Without branch or shift: 0 */

typedef struct {
    float *x, *y;
    const float *branch, *gain, *shift;
    long width, keep_sum, rms;
    double eps;
} Norm;

FAST static void normalise_rows(void *given, long thread, long first, long last) {
    (void)thread;
    const Norm *job = given;
    long width = job->width;
    for (long row = first; row < last; row++) {
        float *x = job->x + row * width, *y = job->y + row * width;
        __m512 total = _mm512_setzero_ps(), squares = total;
        for (long k = 0; k < width; k += 16) {
            __mmask16 here = first_of(width - k);
            __m512 part = _mm512_maskz_loadu_ps(here, x + k);
            if (job->branch) {
                const float *branch = job->branch + row * width + k;
                part = _mm512_add_ps(part, _mm512_maskz_loadu_ps(here, branch));
                if (job->keep_sum) _mm512_mask_storeu_ps(x + k, here, part);
            }
            _mm512_mask_storeu_ps(y + k, here, part);
            total = _mm512_add_ps(total, part);
        }
        float mean = job->rms ? 0.0f : _mm512_reduce_add_ps(total) / (float)width;
        __m512 means = _mm512_set1_ps(mean);
        for (long k = 0; k < width; k += 16) {
            __mmask16 here = first_of(width - k);
            __m512 part = _mm512_maskz_sub_ps(here, _mm512_maskz_loadu_ps(here, y + k), means);
            squares = _mm512_fmadd_ps(part, part, squares);
        }
        float variance = _mm512_reduce_add_ps(squares) / (float)width;
        __m512 inverse = _mm512_set1_ps((float)(1.0 / sqrt((double)variance + job->eps)));
        for (long k = 0; k < width; k += 16) {
            __mmask16 here = first_of(width - k);
            __m512 part = _mm512_sub_ps(_mm512_maskz_loadu_ps(here, y + k), means);
            __m512 gain = _mm512_mul_ps(inverse, _mm512_maskz_loadu_ps(here, job->gain + k));
            __m512 shift = _mm512_setzero_ps();
            if (job->shift) shift = _mm512_maskz_loadu_ps(here, job->shift + k);
            _mm512_mask_storeu_ps(y + k, here, _mm512_fmadd_ps(part, gain, shift));
        }
    }
}

void add_norm(const Norm *job, long rows, long threads) {
    in_parallel(normalise_rows, (void *)job, rows, rows * job->width < 1 << 16 ? 1 : threads);
}

/* Attention of one token in each row (sources * beams) over the slots that it sees. Its keys and
   values, if given, go to the slot `start` + beam first. Strides count floats, those of `seen`
   bytes. */

typedef struct {
    const float *q, *new_keys, *new_values;
    float *keys, *values, *out;
    const uint8_t *seen; /* 0: all */
    int32_t *room;       /* for each thread, the slots that a beam sees and their weights */
    long q_row, new_row, at_source, at_head, at_slot, seen_source, seen_beam;
    long sources, beams, heads, kv_heads, d, slots, start;
    double scale;
} Attention;

INLINE __m512 exponential(__m512 x) { /* x <= 0; within 2 units in the last place */
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    static const float over[] = {1 / 5040.f, 1 / 720.f, 1 / 120.f, 1 / 24.f, 1 / 6.f, 0.5f, 1, 1};
    __m512 y = _mm512_set1_ps(over[0]);
    UNROLL for (int i = 1; i < 8; i++) y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(over[i]));
    return _mm512_scalef_ps(y, n);
}

INLINE void of_head(const Attention *job, const float *q, const float *keys, const float *values,
                    float *out, const int32_t *slots, long count, float *weights) {
    long d = job->d, at_slot = job->at_slot;
    float most = -INFINITY;
    for (long i = 0; i < count; i++) {
        const float *key = keys + slots[i] * at_slot;
        __m512 dot = _mm512_setzero_ps();
        for (long c = 0; c < d; c += 16) {
            __mmask16 here = first_of(d - c);
            __m512 part = _mm512_maskz_loadu_ps(here, key + c);
            dot = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(here, q + c), part, dot);
        }
        weights[i] = _mm512_reduce_add_ps(dot) * (float)job->scale;
        most = weights[i] > most || weights[i] != weights[i] ? weights[i] : most;
    }
    __m512 total = _mm512_setzero_ps();
    for (long i = 0; i < count; i += 16) {
        __mmask16 here = first_of(count - i);
        __m512 part = _mm512_sub_ps(_mm512_maskz_loadu_ps(here, weights + i), _mm512_set1_ps(most));
        part = _mm512_maskz_mov_ps(here, exponential(part));
        _mm512_mask_storeu_ps(weights + i, here, part);
        total = _mm512_add_ps(total, part);
    }
    float sum = _mm512_reduce_add_ps(total);
    __m512 inverse = _mm512_set1_ps(count ? 1.0f / sum : 0.0f); /* who sees nothing gets zeros */
    for (long c = 0; c < d; c += 64) {
        __m512 mixed[4];
        __mmask16 here[4];
        UNROLL for (int j = 0; j < 4; j++) {
            mixed[j] = _mm512_setzero_ps();
            here[j] = first_of(d - c - 16 * j);
        }
        for (long i = 0; i < count; i++) {
            const float *value = values + slots[i] * at_slot + c;
            __m512 weight = _mm512_set1_ps(weights[i]);
            UNROLL for (int j = 0; j < 4; j++) {
                __m512 part = _mm512_maskz_loadu_ps(here[j], value + 16 * j);
                mixed[j] = _mm512_fmadd_ps(weight, part, mixed[j]);
            }
        }
        UNROLL for (int j = 0; j < 4; j++) {
            __m512 y = _mm512_mul_ps(mixed[j], inverse);
            _mm512_mask_storeu_ps(out + c + 16 * j, here[j], y);
        }
    }
}

FAST static void write_newest(const Attention *job, long source) {
    for (long beam = 0; beam < job->beams; beam++)
        for (long head = 0; head < job->kv_heads; head++) {
            long to = source * job->at_source + head * job->at_head;
            to += (job->start + beam) * job->at_slot;
            long from = (source * job->beams + beam) * job->new_row + head * job->d;
            memcpy(job->keys + to, job->new_keys + from, (size_t)job->d * sizeof(float));
            memcpy(job->values + to, job->new_values + from, (size_t)job->d * sizeof(float));
        }
}

FAST static void attend_sources(void *given, long thread, long first, long last) {
    const Attention *job = given;
    int32_t *slots = job->room + thread * 2 * (job->slots + 1);
    float *weights = (float *)(slots + job->slots + 1);
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

/* 0: no memory */
int attend_newest(Attention *job, long threads) {
    job->room = malloc((size_t)threads * (size_t)(job->slots + 1) * 2 * sizeof(int32_t));
    if (!job->room) return 0;
    in_parallel(attend_sources, job, job->sources, threads);
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

#else

int supported(void) { return 0; }

#endif
