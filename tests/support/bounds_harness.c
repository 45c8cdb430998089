/* Runs native programs in memory of exactly the sizes they ask for, so that valgrind sees what they touch besides.

       harness (LIBRARY INPUT OUTPUT)...

   INPUT: int64 words (bytes of the arena, its alignment, numbers of parameters and results, bytes of each parameter, bytes of each
   result, or -1 for one that ends in a donated parameter), then the content of the parameters.
   OUTPUT: the returned number, the content of all parameters, that of all results. Writing them is how undefined bytes come to light. */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int64_t Step(void **places, int64_t low, int64_t high, void *scratch);

typedef struct Pool {
    int64_t (*launch)(struct Pool *, Step *, void **, int64_t, void *);
} Pool;

static int64_t last_first(Pool *pool, Step *step, void **places, int64_t tasks, void *scratch) {
    int64_t smallest = 0;
    for (int64_t task = tasks - 1; task >= 0; task--) {
        int64_t found = step(places, task, task + 1, scratch);
        if (found) smallest = found;
    }
    return smallest;
}

static void *exactly(int64_t bytes, int64_t alignment) {
    void *memory;
    if (posix_memalign(&memory, alignment, bytes)) abort();
    return memory;
}

static void take(FILE *file, void *memory, int64_t bytes) {
    if (fread(memory, 1, bytes, file) != (size_t)bytes) abort();
}

static void give(int file, const void *memory, int64_t bytes) {
    for (const char *at = memory; bytes > 0;) {
        ssize_t written = write(file, at, bytes);
        if (written <= 0) abort();
        at += written, bytes -= written;
    }
}

static void run(const char *library, const char *input, const char *output) {
    void *code = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!code) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    int64_t (*entry)(void **, void **, void *, Pool *) = (int64_t (*)(void **, void **, void *, Pool *))dlsym(code, "adjit_run");
    FILE *in = fopen(input, "rb"), *out = fopen(output, "wb");
    if (!entry || !in || !out) abort();
    int64_t header[4];
    take(in, header, sizeof header);
    int64_t count = header[2] + header[3];
    int64_t *sizes = exactly(8 * count, 8);
    void **memory = exactly(8 * count, 8);
    take(in, sizes, 8 * count);
    for (int64_t i = 0; i < count; i++) memory[i] = sizes[i] < 0 ? NULL : exactly(sizes[i], 16);
    for (int64_t i = 0; i < header[2]; i++) take(in, memory[i], sizes[i]);
    Pool pool = {last_first};
    int64_t status = entry(memory, memory + header[2], exactly(header[0], header[1]), &pool);
    give(fileno(out), &status, 8);
    for (int64_t i = 0; i < count; i++) give(fileno(out), memory[i], sizes[i] < 0 ? 0 : sizes[i]);
    fclose(in);
    fclose(out);
}

int main(int argc, char **argv) {
    for (int i = 1; i + 2 < argc; i += 3) {
        fprintf(stderr, "program %s\n", argv[i]);
        run(argv[i], argv[i + 1], argv[i + 2]);
    }
    return 0;
}
