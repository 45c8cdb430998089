/* A driver without a device: memory is the host's, and a launch calls back whoever registered for it. It checks what a real one would take
   badly: addresses that it did not give out, use after free, copies past the end, unknown handles. A graph runs its nodes in a random order
   that their dependencies allow. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int R;
typedef void *H;
typedef void (*launch_call)(const char *name, unsigned grid, unsigned threads, void **parameters);
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, BLOCKS = 4096 };

static struct { uint8_t *start; size_t size; int live; } blocks[BLOCKS];
static int block_count, card_count = 1, launched, reuses;
static launch_call on_launch;
typedef struct function { char name[256]; int words; } function;

static char calls[1 << 12];
static void note(const char *name) { if (strlen(calls) + strlen(name) + 2 < sizeof calls) strcat(strcat(calls, name), " "); }
#define CALLED note(__func__)
void fake_calls(char *found) { strcpy(found, calls), calls[0] = 0; }      /* names of functions that were called since */

static int inside(uint64_t address, size_t size) {
    for (int i = 0; i < block_count; i++)
        if (blocks[i].live && address >= (uint64_t)blocks[i].start && address + size <= (uint64_t)blocks[i].start + blocks[i].size) return 1;
    return 0;
}
void fake_on_launch(launch_call call) { on_launch = call; }
static int card;            /* whose context is current */
#define STREAM ((H)(intptr_t)(130 + 100 * card))
void fake_reuse(int on) { reuses = on; }           /* freed memory is given out again, as a pool does */
void fake_cards(int count) { card_count = count; }
int fake_live(void) { int n = 0; for (int i = 0; i < block_count; i++) n += blocks[i].live; return n; }

static int fault, fault_after, graph_launches;
void fake_fault(int status) { fault = status, fault_after = launched + graph_launches; }     /* of the launch that comes next */

R cuInit(unsigned flags) { return flags ? INVALID_VALUE : OK; }
R cuDeviceGetCount(int *count) { *count = card_count; return OK; }
R cuDeviceGet(int *d, int n) { *d = n; return n >= card_count ? 101 : OK; }
R cuDeviceGetName(char *name, int size, int d) { strncpy(name, "a card that is none", size); return OK; }
R cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 : a == 76 ? 0 : 1; return OK; }
static int version = 12040;
void fake_version(int number) { version = number; }
R cuDriverGetVersion(int *v) { *v = version; return OK; }
R cuDevicePrimaryCtxRetain(H *c, int d) { *c = (H)(intptr_t)(1 + d); return OK; }
R cuCtxSetCurrent(H c) { CALLED; card = (int)(intptr_t)c - 1; return card >= 0 && card < card_count ? OK : 201; }
R cuStreamCreate(H *s, unsigned f) { *s = STREAM; return f == 1 ? OK : INVALID_VALUE; }
R cuStreamSynchronize(H s) { CALLED; return s != STREAM ? INVALID_HANDLE : fault && launched + graph_launches > fault_after ? fault : OK; }
R cuGetErrorString(int e, const char **s) { *s = e == INVALID_VALUE ? "invalid argument" : "error"; return OK; }
R cuModuleLoadDataEx(H *m, const void *image, unsigned n, int *options, void **values) {
    if (!strstr(image, ".version") || !strstr(image, ".entry") || n != 2 || options[0] != 5 || options[1] != 6 || !values[1]) return INVALID_PTX;
    *m = strdup(image);
    return OK;
}
R cuModuleGetFunction(H *f, H m, const char *name) {
    char head[300] = ".entry ";
    strncat(strncat(head, name, 255), "(", 2);
    const char *found = strstr(m, head);
    if (!found) return NOT_FOUND;
    function *made = calloc(1, sizeof *made);
    for (const char *end = strchr(found, ')'); (found = strstr(found, ".param")) && found < end; found++) made->words++;
    strncpy(made->name, name, 255);
    *f = made;
    return OK;
}
R cuDeviceGetDefaultMemPool(H *pool, int d) { *pool = (H)3; return d >= card_count ? 101 : OK; }
R cuMemPoolSetAttribute(H pool, int attribute, void *value) {
    return pool == (H)3 && attribute == 4 && *(uint64_t *)value == UINT64_MAX ? OK : INVALID_VALUE;
}
R cuMemAllocAsync(uint64_t *address, size_t size, H s) { CALLED;
    if (s != STREAM) return INVALID_HANDLE;
    for (int i = block_count; reuses && i--; )
        if (!blocks[i].live && blocks[i].size == size) {
            *address = (uint64_t)blocks[i].start;
            blocks[i].live = 1;
            return OK;
        }
    if (!size || size > 1 << 30 || block_count == BLOCKS) return size ? OUT_OF_MEMORY : INVALID_VALUE;
    uint8_t *start = aligned_alloc(256, (size + 255) / 256 * 256);
    if (!start) return OUT_OF_MEMORY;
    memset(start, 0xFF, size);
    blocks[block_count].start = start, blocks[block_count].size = size, blocks[block_count++].live = 1;
    *address = (uint64_t)start;
    return OK;
}
R cuMemGetInfo_v2(size_t *left, size_t *all) {
    *all = 1 << 30, *left = *all;
    for (int i = 0; i < block_count; i++) *left -= blocks[i].live ? blocks[i].size : 0;
    return OK;
}
R cuMemPoolGetAttribute(H pool, int attribute, void *value) {
    size_t left, all;
    cuMemGetInfo_v2(&left, &all);
    *(uint64_t *)value = all - left;
    return pool == (H)3 && attribute == 5 ? OK : INVALID_VALUE;
}
R cuMemPoolTrimTo(H pool, size_t keep) { return pool == (H)3 && !keep ? OK : INVALID_VALUE; }
R cuFuncGetAttribute(int *v, int attribute, H f) { *v = attribute == 4 ? 40 : 0; return f && (attribute == 3 || attribute == 4) ? OK : INVALID_VALUE; }
R cuMemFreeAsync(uint64_t address, H s) { CALLED;            /* the memory stays, filled: who reads it sees it */
    for (int i = 0; i < block_count; i++)
        if (blocks[i].live && (uint64_t)blocks[i].start == address) {
            memset(blocks[i].start, 0xFF, blocks[i].size);
            blocks[i].live = 0;
            return OK;
        }
    return INVALID_VALUE;
}
R cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, H s) { CALLED;
    if (!inside(to, n) || s != STREAM) return INVALID_VALUE;
    memcpy((void *)to, from, n);
    return OK;
}
R cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, H s) { CALLED;
    if (!inside(from, n) || s != STREAM) return INVALID_VALUE;
    memcpy(to, (void *)from, n);
    return OK;
}
R cuPointerGetAttribute(void *value, int attribute, uint64_t address) { CALLED; return INVALID_VALUE; }     /* memory that nobody registered */
R cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, H s) { CALLED;
    if (!inside(to, n) || !inside(from, n) || s != STREAM) return INVALID_VALUE;
    memmove((void *)to, (void *)from, n);
    return OK;
}
R cuMemcpyPeerAsync(uint64_t to, H own, uint64_t from, H other, size_t n, H s) { CALLED;
    if (!inside(to, n) || !inside(from, n) || s != STREAM || own != (H)(intptr_t)(1 + card) || other == own) return INVALID_VALUE;
    memmove((void *)to, (void *)from, n);
    return OK;
}
R cuLaunchKernel(H f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, H s, void **p, void **extra) { CALLED;
    if (!f || s != STREAM || !gx || gy != 1 || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1 || shared || extra) return INVALID_VALUE;
    launched++;
    if (on_launch) on_launch(((function *)f)->name, gx, bx, p);
    return OK;
}

/* -- graphs */

enum { NODES = 256 };
typedef struct { void *function; unsigned grid[3], block[3], shared; void **parameters, **extra; } kernel_node;
typedef struct graph graph;
typedef struct { kernel_node about; uint64_t words[64]; void *pointers[64]; int after[NODES], befores; graph *body; uint32_t *condition; int repeats; } node;
struct graph { int count, kind; graph *source; uint32_t *conditions[NODES]; int conditioned; node nodes[NODES]; };      /* kind: 1 graph, 2 executable */
typedef struct { graph *own; int number; } made_node;

static int updates, instances;
static uint32_t state = 1;
void fake_seed(unsigned seed) { state = seed * 2654435761u + 1; }
void fake_counts(int *found) { found[0] = launched, found[1] = graph_launches, found[2] = updates, found[3] = instances; }

static R keep(node *n, const kernel_node *about) {
    if (!about->function || !about->grid[0] || about->grid[1] != 1 || about->grid[2] != 1 || !about->block[0] || about->block[0] > 1024
        || about->block[1] != 1 || about->block[2] != 1 || about->shared || about->extra || !about->parameters) return INVALID_VALUE;
    int count = ((function *)about->function)->words;
    if (count > 64) return INVALID_VALUE;
    n->about = *about;
    for (int i = 0; i < count; i++) n->words[i] = *(uint64_t *)about->parameters[i], n->pointers[i] = &n->words[i];
    return OK;
}
R cuGraphCreate(H *g, unsigned flags) { graph *made = calloc(1, sizeof *made); made->kind = 1; *g = made; return flags ? INVALID_VALUE : OK; }
static node *add(H *made, graph *own, const H *before, size_t count) {
    if (own->kind != 1 || own->count == NODES || (count && !before)) return NULL;
    node *n = &own->nodes[own->count];
    for (size_t i = 0; i < count; i++) {
        made_node *other = before[i];
        if (!other || other->own != own) return NULL;      /* of another graph */
        n->after[n->befores++] = other->number;
    }
    made_node *handle = malloc(sizeof *handle);
    handle->own = own, handle->number = own->count++;
    *made = handle;
    return n;
}
R cuGraphAddKernelNode(H *made, H g, const H *before, size_t count, const kernel_node *about) {
    node *n = add(made, g, before, count);
    return n ? keep(n, about) : INVALID_VALUE;
}
typedef struct { int type, reserved[3]; uint64_t handle; int kind; unsigned size; H *bodies, context; uint64_t rest[26]; } conditional_node;
R cuGraphConditionalHandleCreate(uint64_t *handle, H g, H context, unsigned first, unsigned flags) {
    graph *own = g;
    if (own->kind != 1 || context != (H)(intptr_t)(1 + card) || flags != 1 || own->conditioned == NODES) return INVALID_VALUE;
    uint32_t *made = own->conditions[own->conditioned++] = malloc(sizeof *made);
    *made = first, *handle = (uint64_t)made;
    return OK;
}
R cuGraphAddNode(H *made, H g, const H *before, size_t count, conditional_node *about) {
    graph *own = g;
    int known = 0;
    if (sizeof *about != 256 || about->type != 13 || about->kind & ~1 || about->size != 1 || about->context != (H)(intptr_t)(1 + card)) return INVALID_VALUE;
    for (int i = 0; i < own->conditioned; i++) known |= (uint64_t)own->conditions[i] == about->handle;
    node *n = known ? add(made, own, before, count) : NULL;
    if (!n) return INVALID_VALUE;
    n->condition = (uint32_t *)about->handle, n->repeats = about->kind;
    n->body = calloc(1, sizeof *n->body), n->body->kind = 1;
    about->bodies = malloc(sizeof(H)), about->bodies[0] = n->body;
    return OK;
}
static graph *instance(graph *g) {
    graph *made = malloc(sizeof *made);
    memcpy(made, g, sizeof *made);
    made->kind = 2, made->source = g;
    for (int i = 0; i < made->count; i++) {
        for (int j = 0; j < 64; j++) made->nodes[i].pointers[j] = &made->nodes[i].words[j];
        if (made->nodes[i].body && (!made->nodes[i].body->count || !(made->nodes[i].body = instance(made->nodes[i].body)))) return NULL;
    }
    return made;
}
static node *of_instance(graph *own, graph *g, made_node *wanted) {      /* nodes of bodies are found by the graph that they were added to */
    if (g == wanted->own) return &own->nodes[wanted->number];
    node *found = NULL;
    for (int i = 0; i < own->count && !found; i++)
        if (own->nodes[i].body) found = of_instance(own->nodes[i].body, g->nodes[i].body, wanted);
    return found;
}
R cuGraphInstantiateWithFlags(H *e, H g, unsigned long long flags) { CALLED;
    if (((graph *)g)->kind != 1 || flags) return INVALID_VALUE;
    *e = instance(g), instances++;
    return *e ? OK : INVALID_VALUE;
}
R cuGraphExecKernelNodeSetParams(H e, H n, const kernel_node *about) { CALLED;
    graph *own = e;
    node *wanted = own->kind == 2 ? of_instance(own, own->source, n) : NULL;
    if (!wanted || about->function != wanted->about.function) return INVALID_VALUE;
    updates++;
    return keep(wanted, about);
}
static void run(graph *own) {
    char done[NODES] = {0};
    for (int i = 0; i < own->count; i++)
        if (own->nodes[i].body) *own->nodes[i].condition = 0;
    for (int left = on_launch ? own->count : 0; left; ) {
        state = state * 1664525 + 1013904223;
        int i = (state >> 8) % own->count, ready = !done[i];
        for (int j = 0; j < own->nodes[i].befores; j++) ready &= done[own->nodes[i].after[j]];
        if (!ready) continue;
        done[i] = 1, left--;
        node *n = &own->nodes[i];
        if (!n->body) on_launch(((function *)n->about.function)->name, n->about.grid[0], n->about.block[0], n->pointers);
        else while (*n->condition) {
            run(n->body);
            if (!n->repeats) break;
        }
    }
}
R cuGraphLaunch(H e, H s) { CALLED;
    graph *own = e;
    if (s != STREAM || own->kind != 2) return INVALID_HANDLE;
    graph_launches++;
    run(own);
    return OK;
}
R cuGraphExecDestroy(H e) { instances--; free(e); return OK; }
R cuGraphDestroy(H g) { free(g); return OK; }

/* -- events: streams that wait for others are noted, as pairs of who waits and for whom */

static struct { intptr_t waits, on; } waits[256];
static int wait_count;
int fake_waits(int64_t *found) {
    for (int i = 0; i < wait_count; i++) found[2 * i] = waits[i].waits, found[2 * i + 1] = waits[i].on;
    return wait_count;
}
R cuEventCreate(H *e, unsigned flags) { *e = calloc(1, sizeof(intptr_t)); return flags & ~2u ? INVALID_VALUE : OK; }
R cuEventRecord(H e, H s) { *(intptr_t *)e = (intptr_t)s; return e && s ? OK : INVALID_HANDLE; }
R cuStreamWaitEvent(H s, H e, unsigned flags) {
    if (!s || !*(intptr_t *)e || flags || wait_count == 256) return INVALID_VALUE;
    waits[wait_count].waits = (intptr_t)s, waits[wait_count++].on = *(intptr_t *)e;
    return OK;
}
R cuEventElapsedTime(float *ms, H before, H after) { *ms = 0.25f; return *(intptr_t *)before && *(intptr_t *)after ? OK : INVALID_HANDLE; }
R cuEventDestroy_v2(H e) { free(e); return OK; }
