/* One GPU as NVIDIA's management library reports it: 87 % busy, 1 GiB in use, 1200 MHz, 250 W. */
#include <string.h>
#include <time.h>

typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;

int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { return *count = 1, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { return *device = device, index ? 2 : 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned length) { return strncpy(name, "Imitated GPU", length), 0; }
int nvmlDeviceGetUtilizationRates(void *device, Utilization *use) { return use->gpu = 87, use->memory = 50, 0; }
int nvmlDeviceGetMemoryInfo_v2(void *device, Memory *memory) { return memory->used = 1ull << 30, 0; }
int nvmlDeviceGetClockInfo(void *device, int domain, unsigned *mhz) { return *mhz = 1200, 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *millijoules = 250000ull * now.tv_sec + now.tv_nsec / 4000; /* 250 W */
    return 0;
}
