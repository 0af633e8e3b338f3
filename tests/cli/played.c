// The real program over the CUDA device that the host plays; the environment says what it lacks.
#include <signal.h>
#include <stdlib.h>
#include "cuda/host/host_cuda.h"
#include "env.h"

static int number(const char *name, int otherwise) {
    const char *value = env_value(name);
    return value ? (int)strtol(value, NULL, 10) : otherwise;
}

// The driver's error for an illegal address, which stays.
static void break_down(int signal_number) {
    (void)signal_number;
    host_cuda.fail_sticks = true;
    host_cuda.fail_launch = 700;
}

// A launch that the driver refuses, and nothing more.
static void refuse_one(int signal_number) {
    (void)signal_number;
    host_cuda.fail_launch = 1;
}

__attribute__((constructor)) static void set_up(void) {
    host_cuda.devices = number("LF_PLAYED_DEVICES", 1);
    host_cuda.major = number("LF_PLAYED_MAJOR", 9);
    host_cuda.free_bytes = (size_t)number("LF_PLAYED_FREE_MIB", 8192) << 20;
    host_cuda.memory_bytes = (size_t)8 << 30;
    host_cuda.fail_launch = number("LF_PLAYED_FAIL_LAUNCH", 0);
    host_cuda.fail_sticks = host_cuda.fail_launch != 0;
    signal(SIGUSR1, break_down);
    signal(SIGUSR2, refuse_one);
}
