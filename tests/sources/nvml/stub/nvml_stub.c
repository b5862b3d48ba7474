/* A libnvidia-ml.so.1 without a card: every answer stands in a scenario file, read again whenever that file changes.
 *
 * The file is named by STEELYARD_NVML_SCENARIO; its lines are `key value`, `#` begins a comment. A key that is not there means
 * "Not Supported". `fail.<function>[.<gpu>] <code>` fails a call, `lost.<gpu> 1` all calls about a card, and `hang.<function>[.<gpu>] 1`
 * holds a call until that line is gone. README.md beside this file lists the keys.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, LOST = 15 };
enum { GPUS = 16, MIGS = 8, LINES = 2048, KEY = 96, VALUE = 2048 };

typedef struct { int gpu, mig; } Handle;
enum { FIGURES = 9 };
typedef struct { int gpu, gi, count; double figures[FIGURES]; } GpmSample;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } ProcessInfo;
typedef struct { unsigned pid; unsigned long long stamp; unsigned sm, mem, enc, dec; } ProcessUtilization;
typedef struct { char legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; } PciInfo;
typedef struct { uint32_t field, scope; int64_t stamp, latency; int type, result; union { double d; unsigned u; unsigned long long ull; } value; } FieldValue;
typedef struct { unsigned id, result; double value; struct { char *a, *b, *c; } info; } GpmMetric;
typedef struct { unsigned version, count; GpmSample *first, *second; GpmMetric metrics[]; } GpmMetrics;
typedef struct { unsigned sm, copy, decoder, encoder, jpeg, ofa, gi_slices, ci_slices; unsigned long long memory_mb; } Attributes;
typedef struct { Handle *device; unsigned id, profile, start, size; } GpuInstanceInfo;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct { char key[KEY], value[VALUE]; } lines[LINES];
static int lines_count;
static char loaded_path[4096];
static struct stat loaded;
static int users;
static Handle handles[GPUS][MIGS + 1];

static void load(void) {
    const char *path = getenv("STEELYARD_NVML_SCENARIO");
    struct stat now;
    if (!path || stat(path, &now)) { lines_count = 0; loaded_path[0] = 0; return; }
    if (!strcmp(path, loaded_path) && now.st_ino == loaded.st_ino && now.st_size == loaded.st_size &&
        now.st_mtim.tv_sec == loaded.st_mtim.tv_sec && now.st_mtim.tv_nsec == loaded.st_mtim.tv_nsec) return;
    FILE *file = fopen(path, "r");
    if (!file) { lines_count = 0; return; }
    char line[KEY + VALUE];
    lines_count = 0;
    while (lines_count < LINES && fgets(line, sizeof line, file)) {
        char *end = line + strcspn(line, "\r\n"), *blank = strchr(line, ' ');
        *end = 0;
        if (line[0] == '#' || !line[0] || !blank || blank - line >= KEY) continue;
        *blank = 0;
        snprintf(lines[lines_count].key, KEY, "%s", line);
        snprintf(lines[lines_count].value, VALUE, "%s", blank + 1);
        lines_count++;
    }
    fclose(file);
    snprintf(loaded_path, sizeof loaded_path, "%s", path);
    loaded = now;
}

/* The value of a key, copied into `out` (VALUE bytes); 0 where the scenario does not have it. */
static int get(char *out, const char *format, ...) {
    char key[KEY];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key, sizeof key, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&mutex);
    load();
    int found = 0;
    for (int i = 0; i < lines_count && !found; i++)
        if (!strcmp(lines[i].key, key)) { memcpy(out, lines[i].value, VALUE); found = 1; }
    pthread_mutex_unlock(&mutex);
    return found;
}

/* Hangs or fails a call as the scenario wants; `gpu` -1: a call that is about no card. */
static int enter(const char *function, int gpu) {
    char value[VALUE];
    while (get(value, "hang.%s", function) || (gpu >= 0 && get(value, "hang.%s.%d", function, gpu))) usleep(2000);
    if (gpu >= 0 && get(value, "fail.%s.%d", function, gpu)) return atoi(value);
    if (get(value, "fail.%s", function)) return atoi(value);
    if (gpu >= 0 && get(value, "lost.%d", gpu)) return LOST;
    if (!users && strncmp(function, "nvmlInit", 8)) return UNINITIALIZED;
    return SUCCESS;
}

#define ENTER(gpu) do { int result_ = enter(__func__, gpu); if (result_) return result_; } while (0)

/* The prefix of a handle's keys: `gpu.0` or `gpu.0.mig.1`. */
static const char *place(const Handle *handle, char *out) {
    if (handle->mig < 0) snprintf(out, KEY, "gpu.%d", handle->gpu);
    else snprintf(out, KEY, "gpu.%d.mig.%d", handle->gpu, handle->mig);
    return out;
}

static int text(const Handle *handle, const char *key, char *out, unsigned size) {
    char value[VALUE], prefix[KEY];
    if (!get(value, "%s.%s", place(handle, prefix), key)) return NOT_SUPPORTED;
    if (strlen(value) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

static int number(const Handle *handle, const char *key, unsigned *out) {
    char value[VALUE], prefix[KEY];
    if (!get(value, "%s.%s", place(handle, prefix), key)) return NOT_SUPPORTED;
    *out = (unsigned)strtoull(value, NULL, 0);
    return SUCCESS;
}

const char *nvmlErrorString(int code) {
    static char words[64];
    switch (code) {
        case 6: return "Not Found";
        case 10: return "Timeout";
        case 26: return "Requested functionality has been deprecated";
        default: snprintf(words, sizeof words, "NVML error %d", code); return words;
    }
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    ENTER(-1);
    for (int gpu = 0; gpu < GPUS; gpu++)
        for (int mig = -1; mig < MIGS; mig++) handles[gpu][mig + 1] = (Handle){gpu, mig};
    users++;
    return SUCCESS;
}

int nvmlShutdown(void) {
    ENTER(-1);
    users--;
    return SUCCESS;
}

static int words(const char *key, char *out, unsigned size) {
    char value[VALUE];
    if (!get(value, "%s", key)) return NOT_SUPPORTED;
    snprintf(out, size, "%s", value);
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *out, unsigned size) { ENTER(-1); return words("driver_version", out, size); }
int nvmlSystemGetNVMLVersion(char *out, unsigned size) { ENTER(-1); return words("nvml_version", out, size); }

int nvmlDeviceGetCount_v2(unsigned *out) {
    char value[VALUE];
    ENTER(-1);
    *out = get(value, "count") ? (unsigned)atoi(value) : 0;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **out) {
    if (index >= GPUS) return INVALID_ARGUMENT;
    ENTER((int)index);
    *out = &handles[index][0];
    return SUCCESS;
}

int nvmlDeviceGetName(Handle *h, char *out, unsigned size) { ENTER(h->gpu); return text(h, "name", out, size); }
int nvmlDeviceGetUUID(Handle *h, char *out, unsigned size) { ENTER(h->gpu); return text(h, "uuid", out, size); }
int nvmlDeviceGetSerial(Handle *h, char *out, unsigned size) { ENTER(h->gpu); return text(h, "serial", out, size); }

int nvmlDeviceGetPciInfo_v3(Handle *h, PciInfo *out) {
    ENTER(h->gpu);
    memset(out, 0, sizeof *out);
    return text(h, "pci", out->bus_id, sizeof out->bus_id);
}

int nvmlDeviceGetPowerUsage(Handle *h, unsigned *out) { ENTER(h->gpu); return number(h, "power_mw", out); }

int nvmlDeviceGetEnforcedPowerLimit(Handle *h, unsigned *out) { ENTER(h->gpu); return number(h, "power_limit_mw", out); }

int nvmlDeviceGetPcieThroughput(Handle *h, int counter, unsigned *out) { ENTER(h->gpu); return number(h, counter ? "pcie_rx_kb" : "pcie_tx_kb", out); }

int nvmlDeviceGetTemperature(Handle *h, int sensor, unsigned *out) { (void)sensor; ENTER(h->gpu); return number(h, "temperature", out); }

int nvmlDeviceGetClockInfo(Handle *h, int type, unsigned *out) {
    ENTER(h->gpu);
    return number(h, type == 1 ? "sm_clock" : type == 2 ? "memory_clock" : "other_clock", out);
}

static int long_number(const Handle *handle, const char *key, unsigned long long *out) {
    char value[VALUE], prefix[KEY];
    if (!get(value, "%s.%s", place(handle, prefix), key)) return NOT_SUPPORTED;
    *out = strtoull(value, NULL, 0);
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(Handle *h, unsigned long long *out) { ENTER(h->gpu); return long_number(h, "throttle", out); }
int nvmlDeviceGetCurrentClocksThrottleReasons(Handle *h, unsigned long long *out) { ENTER(h->gpu); return long_number(h, "throttle", out); }

int nvmlDeviceGetTotalEccErrors(Handle *h, int type, int counter, unsigned long long *out) {
    (void)counter;
    ENTER(h->gpu);
    return long_number(h, type == 1 ? "ecc_uncorrected" : "ecc_corrected", out);
}

int nvmlDeviceGetUtilizationRates(Handle *h, unsigned *out) {
    char value[VALUE], prefix[KEY];
    ENTER(h->gpu);
    if (!get(value, "%s.util", place(h, prefix))) return NOT_SUPPORTED;
    return sscanf(value, "%u %u", &out[0], &out[1]) == 2 ? SUCCESS : INVALID_ARGUMENT;
}

static int memory(Handle *h, unsigned long long *total, unsigned long long *reserved, unsigned long long *used) {
    char value[VALUE], prefix[KEY];
    if (!get(value, "%s.memory", place(h, prefix))) return NOT_SUPPORTED;
    return sscanf(value, "%llu %llu %llu", total, reserved, used) == 3 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetMemoryInfo_v2(Handle *h, void *out) {
    struct { unsigned version; unsigned long long total, reserved, free, used; } *info = out;
    ENTER(h->gpu);
    int result = memory(h, &info->total, &info->reserved, &info->used);
    if (!result) info->free = info->total - info->reserved - info->used;
    return result;
}

int nvmlDeviceGetMemoryInfo(Handle *h, void *out) {
    struct { unsigned long long total, free, used; } *info = out;
    unsigned long long reserved;
    ENTER(h->gpu);
    int result = memory(h, &info->total, &reserved, &info->used);
    if (!result) { info->used += reserved; info->free = info->total - info->used; }
    return result;
}

int nvmlDeviceGetFieldValues(Handle *h, int count, FieldValue *out) {
    ENTER(h->gpu);
    for (int i = 0; i < count; i++) {
        char key[KEY];
        snprintf(key, sizeof key, "field.%u", out[i].field);
        out[i].type = out[i].field == 230 ? 1 : 3;
        out[i].value.ull = 0;
        out[i].result = long_number(h, key, &out[i].value.ull);
    }
    return SUCCESS;
}

int nvmlDeviceGetRemappedRows(Handle *h, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    char value[VALUE];
    ENTER(h->gpu);
    if (!get(value, "gpu.%d.remaps", h->gpu)) return NOT_SUPPORTED;
    return sscanf(value, "%u %u %u %u", corrected, uncorrected, pending, failed) == 4 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetMigMode(Handle *h, unsigned *current, unsigned *pending) {
    char value[VALUE];
    ENTER(h->gpu);
    if (!get(value, "gpu.%d.mig", h->gpu)) return NOT_SUPPORTED;
    return sscanf(value, "%u %u", current, pending) == 2 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetMaxMigDeviceCount(Handle *h, unsigned *out) { ENTER(h->gpu); *out = MIGS; return SUCCESS; }

int nvmlDeviceGetMigDeviceHandleByIndex(Handle *h, unsigned index, Handle **out) {
    char value[VALUE];
    ENTER(h->gpu);
    if (index >= MIGS || !get(value, "gpu.%d.mig.%u.uuid", h->gpu, index)) return NOT_FOUND;
    *out = &handles[h->gpu][index + 1];
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(Handle *h, unsigned *out) { ENTER(h->gpu); return number(h, "gi", out); }
int nvmlDeviceGetComputeInstanceId(Handle *h, unsigned *out) { ENTER(h->gpu); return number(h, "ci", out); }

int nvmlDeviceGetAttributes_v2(Handle *h, Attributes *out) {
    char value[VALUE], prefix[KEY];
    ENTER(h->gpu);
    memset(out, 0, sizeof *out);
    if (!get(value, "%s.attributes", place(h, prefix))) return NOT_SUPPORTED;
    return sscanf(value, "%u %u %u %llu", &out->sm, &out->gi_slices, &out->ci_slices, &out->memory_mb) == 4 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetGpuInstanceById(Handle *h, unsigned id, void **out) {
    char value[VALUE];
    ENTER(h->gpu);
    if (!get(value, "gpu.%d.gi.%u", h->gpu, id)) return NOT_FOUND;
    *out = (void *)(uintptr_t)(((unsigned)h->gpu << 16) + id + 1);
    return SUCCESS;
}

int nvmlGpuInstanceGetInfo(void *instance, GpuInstanceInfo *out) {
    char value[VALUE];
    int gpu = (int)((uintptr_t)instance >> 16), id = (int)((uintptr_t)instance & 0xffff) - 1;
    ENTER(gpu);
    if (!get(value, "gpu.%d.gi.%d", gpu, id)) return NOT_FOUND;
    out->device = &handles[gpu][0];
    out->id = (unsigned)id;
    return sscanf(value, "%u %u %u", &out->profile, &out->start, &out->size) == 3 ? SUCCESS : INVALID_ARGUMENT;
}

/* `pid:bytes[:gi:ci]` for each process; without gi and ci the struct says all ones, as the driver does outside MIG. */
static int processes(Handle *h, const char *key, unsigned *count, ProcessInfo *out) {
    char value[VALUE], prefix[KEY], *rest, *save = NULL;
    unsigned found = 0;
    if (!get(value, "%s.%s", place(h, prefix), key)) { *count = 0; return SUCCESS; }
    unsigned room = out ? *count : 0;
    for (char *word = strtok_r(value, " ", &save); word; word = strtok_r(NULL, " ", &save), found++) {
        if (found >= room) continue;
        ProcessInfo one = {0, 0, ~0u, ~0u};
        one.pid = (unsigned)strtoul(word, &rest, 10);
        if (*rest == ':') one.used = strtoull(rest + 1, &rest, 10);
        if (*rest == ':') one.gi = (unsigned)strtoul(rest + 1, &rest, 10);
        if (*rest == ':') one.ci = (unsigned)strtoul(rest + 1, &rest, 10);
        out[found] = one;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v2(Handle *h, unsigned *count, ProcessInfo *out) { ENTER(h->gpu); return processes(h, "compute", count, out); }
int nvmlDeviceGetComputeRunningProcesses_v3(Handle *h, unsigned *count, ProcessInfo *out) { ENTER(h->gpu); return processes(h, "compute", count, out); }
int nvmlDeviceGetGraphicsRunningProcesses_v2(Handle *h, unsigned *count, ProcessInfo *out) { ENTER(h->gpu); return processes(h, "graphics", count, out); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(Handle *h, unsigned *count, ProcessInfo *out) { ENTER(h->gpu); return processes(h, "graphics", count, out); }
int nvmlDeviceGetMPSComputeRunningProcesses_v2(Handle *h, unsigned *count, ProcessInfo *out) { ENTER(h->gpu); return processes(h, "mps", count, out); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(Handle *h, unsigned *count, ProcessInfo *out) { ENTER(h->gpu); return processes(h, "mps", count, out); }

/* `pid:stamp:sm:mem` for each sample, `now` for the stamp of this moment; only those newer than `since`, and "Not Found" where there is none, as the driver does. */
int nvmlDeviceGetProcessUtilization(Handle *h, ProcessUtilization *out, unsigned *count, unsigned long long since) {
    char value[VALUE], *save = NULL;
    unsigned found = 0, room = out ? *count : 0;
    ENTER(h->gpu);
    int unfiltered = get(value, "gpu.%d.process_util_unfiltered", h->gpu);
    if (get(value, "gpu.%d.mig", h->gpu) && value[0] == '1') return NOT_SUPPORTED;
    if (!get(value, "gpu.%d.process_util", h->gpu)) return NOT_FOUND;
    for (char *word = strtok_r(value, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        ProcessUtilization one = {0};
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        one.stamp = (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
        int read = sscanf(word, "%u:now:%u:%u", &one.pid, &one.sm, &one.mem) == 3 ||
                   sscanf(word, "%u:%llu:%u:%u", &one.pid, &one.stamp, &one.sm, &one.mem) == 4;
        if (!read || (one.stamp <= since && !unfiltered)) continue;
        if (found < room) out[found] = one;
        found++;
    }
    *count = found;
    if (!found) return NOT_FOUND;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlGpmQueryDeviceSupport(Handle *h, unsigned *out) { ENTER(h->gpu); out[1] = 0; number(h, "gpm_supported", &out[1]); return SUCCESS; }
int nvmlGpmSampleAlloc(GpmSample **out) { ENTER(-1); *out = calloc(1, sizeof **out); return SUCCESS; }
int nvmlGpmSampleFree(GpmSample *sample) { free(sample); return SUCCESS; }

static int gpm_sample(int gpu, int gi, GpmSample *out) {
    char value[VALUE];
    if (!(gi < 0 ? get(value, "gpu.%d.gpm", gpu) : get(value, "gpu.%d.gi.%d.gpm", gpu, gi))) return NOT_SUPPORTED;
    out->gpu = gpu;
    out->gi = gi;
    double *f = out->figures;
    out->count = sscanf(value, "%lf %lf %lf %lf %lf %lf %lf %lf %lf", f, f + 1, f + 2, f + 3, f + 4, f + 5, f + 6, f + 7, f + 8);
    return out->count >= 3 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlGpmSampleGet(Handle *h, GpmSample *sample) { ENTER(h->gpu); return gpm_sample(h->gpu, -1, sample); }
int nvmlGpmMigSampleGet(Handle *h, unsigned gi, GpmSample *sample) { ENTER(h->gpu); return gpm_sample(h->gpu, (int)gi, sample); }

/* The figures of the later sample: graphics, SM, DRAM, occupancy, tensor in percent; PCIe tx, rx, NVLink tx, rx in MiB/s. */
static const unsigned gpm_ids[FIGURES] = {1, 2, 10, 3, 5, 20, 21, 61, 60};

int nvmlGpmMetricsGet(GpmMetrics *get_metrics) {
    GpmSample *sample = get_metrics->second;
    ENTER(sample->gpu);
    if (get_metrics->first->gpu != sample->gpu || get_metrics->first->gi != sample->gi) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < get_metrics->count; i++) {
        GpmMetric *metric = &get_metrics->metrics[i];
        int figure = -1;
        for (int j = 0; j < sample->count; j++)
            if (gpm_ids[j] == metric->id) figure = j;
        metric->result = figure < 0 ? NOT_SUPPORTED : SUCCESS;
        metric->value = figure < 0 ? 0 : sample->figures[figure];
    }
    return SUCCESS;
}
