/* Nanoseconds of a load whose address is what the load before it has read: for each size in bytes that is given, the
   least of five runs around one random cycle through all lines of 64 bytes of that many bytes. */
#define _POSIX_C_SOURCE 200112L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LINE 64
#define LOADS (1 << 21)
#define RUNS 5

static uint64_t state = 88172645463325252u;

static uint64_t drawn(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int count, char **arguments)
{
    for (int k = 1; k < count; k++) {
        size_t lines = strtoull(arguments[k], NULL, 10) / LINE;
        void *memory;
        if (lines < 2 || posix_memalign(&memory, 4096, lines * LINE))
            return 1;
        char *base = memory;
        for (size_t i = 0; i < lines; i++) /* each line points to itself, then Sattolo's shuffle makes one cycle */
            *(void **)(base + i * LINE) = base + i * LINE;
        for (size_t i = lines - 1; i > 0; i--) {
            void **one = (void **)(base + i * LINE), **other = (void **)(base + drawn() % i * LINE), *held = *one;
            *one = *other;
            *other = held;
        }
        void **at = (void **)base;
        double least = 1e30;
        for (size_t i = 0; i < lines; i++)
            at = *at;
        if (at != (void **)base) /* not one cycle */
            return 2;
        for (int run = 0; run < RUNS; run++) {
            double begin = now();
            for (size_t i = 0; i < LOADS; i++)
                at = *at;
            double taken = (now() - begin) / LOADS;
            least = taken < least ? taken : least;
        }
        printf("%zu %.4f %p\n", lines * LINE, least, (void *)at); /* what is printed is not optimised away */
        free(memory);
    }
    return 0;
}
