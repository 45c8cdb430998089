/* A driver without a device: memory is the host's, and a launch calls back whoever registered for it. It checks what a real one would take
   badly: addresses that it did not give out, use after free, copies past the end, unknown handles. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int R;
typedef void *H;
typedef void (*launch_call)(const char *name, unsigned grid, unsigned threads, void **parameters);
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, BLOCKS = 4096 };

static struct { uint8_t *start; size_t size; int live; } blocks[BLOCKS];
static int block_count, card_count = 1;
static launch_call on_launch;
typedef struct function { char name[256]; } function;

static int inside(uint64_t address, size_t size) {
    for (int i = 0; i < block_count; i++)
        if (blocks[i].live && address >= (uint64_t)blocks[i].start && address + size <= (uint64_t)blocks[i].start + blocks[i].size) return 1;
    return 0;
}
void fake_on_launch(launch_call call) { on_launch = call; }
void fake_cards(int count) { card_count = count; }
int fake_live(void) { int n = 0; for (int i = 0; i < block_count; i++) n += blocks[i].live; return n; }

R cuInit(unsigned flags) { return flags ? INVALID_VALUE : OK; }
R cuDeviceGetCount(int *count) { *count = card_count; return OK; }
R cuDeviceGet(int *d, int n) { *d = n; return n ? 101 : OK; }
R cuDeviceGetName(char *name, int size, int d) { strncpy(name, "a card that is none", size); return OK; }
R cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 : a == 76 ? 0 : 1; return OK; }
R cuDevicePrimaryCtxRetain(H *c, int d) { *c = (H)1; return OK; }
R cuCtxSetCurrent(H c) { return c == (H)1 ? OK : 201; }
R cuStreamCreate(H *s, unsigned f) { *s = (H)2; return f == 1 ? OK : INVALID_VALUE; }
R cuStreamSynchronize(H s) { return s == (H)2 ? OK : INVALID_HANDLE; }
R cuGetErrorString(int e, const char **s) { *s = e == INVALID_VALUE ? "invalid argument" : "error"; return OK; }
R cuModuleLoadDataEx(H *m, const void *image, unsigned n, int *options, void **values) {
    if (!strstr(image, ".version") || !strstr(image, ".entry") || n != 2 || options[0] != 5 || options[1] != 6 || !values[1]) return INVALID_PTX;
    *m = strdup(image);
    return OK;
}
R cuModuleGetFunction(H *f, H m, const char *name) {
    char head[300] = ".entry ";
    strncat(strncat(head, name, 255), "(", 2);
    if (!strstr(m, head)) return NOT_FOUND;
    function *made = calloc(1, sizeof *made);
    strncpy(made->name, name, 255);
    *f = made;
    return OK;
}
R cuMemAlloc_v2(uint64_t *address, size_t size) {
    if (!size || size > 1 << 30 || block_count == BLOCKS) return size ? OUT_OF_MEMORY : INVALID_VALUE;
    uint8_t *start = aligned_alloc(256, (size + 255) / 256 * 256);
    if (!start) return OUT_OF_MEMORY;
    memset(start, 0xFF, size);
    blocks[block_count].start = start, blocks[block_count].size = size, blocks[block_count++].live = 1;
    *address = (uint64_t)start;
    return OK;
}
R cuMemFree_v2(uint64_t address) {              /* the memory stays, filled: who reads it sees it */
    for (int i = 0; i < block_count; i++)
        if (blocks[i].live && (uint64_t)blocks[i].start == address) {
            memset(blocks[i].start, 0xFF, blocks[i].size);
            blocks[i].live = 0;
            return OK;
        }
    return INVALID_VALUE;
}
R cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) { if (!inside(to, n)) return INVALID_VALUE; memcpy((void *)to, from, n); return OK; }
R cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) { if (!inside(from, n)) return INVALID_VALUE; memcpy(to, (void *)from, n); return OK; }
R cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, H s) {
    if (!inside(to, n) || !inside(from, n) || s != (H)2) return INVALID_VALUE;
    memmove((void *)to, (void *)from, n);
    return OK;
}
R cuLaunchKernel(H f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, H s, void **p, void **extra) {
    if (!f || s != (H)2 || !gx || gy != 1 || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1 || shared || extra) return INVALID_VALUE;
    on_launch(((function *)f)->name, gx, bx, p);
    return OK;
}
