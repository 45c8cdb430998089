/* Trains the exported step, without Python: 200 steps of Adam on handwritten digits.

   Prints the loss of each step, every bit of it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "step.h"

enum { STEPS = 200, IMAGES = 1797, PIXELS = 64 };

/* Memory at a multiple of `alignment`, filled from a file where there is one. */
static void *memory(size_t bytes, size_t alignment, FILE *file) {
    size_t whole = (bytes + alignment - 1) / alignment * alignment;
    void *block = aligned_alloc(alignment, whole ? whole : alignment);
    if (block == NULL || (file != NULL && fread(block, 1, bytes, file) != bytes)) {
        fprintf(stderr, "no memory, or a file is too short\n");
        exit(1);
    }
    return block;
}

static FILE *open_file(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "cannot open %s\n", path);
        exit(1);
    }
    return file;
}

int main(int count, char **arguments) {
    const char *folder = count > 1 ? arguments[1] : ".";
    FILE *images_file = open_file(folder, "images.bin"), *labels_file = open_file(folder, "labels.bin");
    FILE *start = open_file(folder, "start.bin");
    float *images = memory(sizeof(float) * IMAGES * PIXELS, 64, images_file);
    int64_t *labels = memory(sizeof(int64_t) * IMAGES, 64, labels_file);

    /* Parameters and optimiser state: inputs that a run writes. What is not written is set for each step. */
    void *inputs[STEP_INPUTS], *outputs[STEP_OUTPUTS];
    for (int64_t i = 0; i < STEP_INPUTS; i++) {
        const step_array *array = step_input(i);
        inputs[i] = array->written ? memory((size_t)array->bytes, 64, start) : NULL;
    }
    /* Outputs that are the memory of an input need none of their own. */
    for (int64_t i = 0; i < STEP_OUTPUTS; i++) {
        const step_array *array = step_output(i);
        outputs[i] = array->input < 0 ? memory((size_t)array->bytes, 64, NULL) : NULL;
    }
    void *arena = memory(STEP_ARENA_BYTES, STEP_ARENA_ALIGNMENT, NULL);

    if (count > 2 && step_use(atoi(arguments[2])) != STEP_OK) {
        fprintf(stderr, "%s\n", step_error(STEP_NO_CODE));
        return 1;
    }
    const int64_t batch = step_input(STEP_INPUT_x)->shape[0];
    const float *loss = outputs[STEP_OUTPUTS - 1];
    for (int64_t number = 0; number < STEPS; number++) {
        int64_t first = number * batch % (IMAGES - batch);
        inputs[STEP_INPUT_x] = images + first * PIXELS;
        inputs[STEP_INPUT_y] = labels + first;
        int status = step_run(inputs, outputs, arena);
        if (status != STEP_OK) {
            fprintf(stderr, "step %lld: %s\n", (long long)number, step_error(status));
            return 1;
        }
        printf("%.13a\n", (double)*loss);
    }
    fprintf(stderr, "trained with code for %s; the loss of the last step is %g\n", step_level(), (double)*loss);

    for (int64_t i = 0; i < STEP_INPUTS; i++)
        if (step_input(i)->written)
            free(inputs[i]);
    for (int64_t i = 0; i < STEP_OUTPUTS; i++)
        free(outputs[i]);
    free(arena);
    free(images);
    free(labels);
    fclose(images_file);
    fclose(labels_file);
    fclose(start);
    return 0;
}
