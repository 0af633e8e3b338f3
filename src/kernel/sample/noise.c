#include "kernel/sample/noise.h"

#include "kernel/math.h"
#include "kernel/sample/sample.h"

void lf_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < LF_PHILOX_ROUNDS; round++)
        lf_philox_round(&c0, &c1, &c2, &c3, &k0, &k1);
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static uint64_t noise_of(uint64_t seed, uint64_t position, uint32_t id) {
    uint32_t counter[4] = {id, (uint32_t)position, (uint32_t)(position >> 32), 0}, out[4];
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    lf_philox(counter, key, out);
    return (uint64_t)out[1] << 32 | out[0];
}

double lf_sample_uniform(uint64_t seed, uint64_t position, uint32_t id) {
    return lf_noise_uniform(noise_of(seed, position, id));
}

double lf_sample_gumbel(uint64_t seed, uint64_t position, uint32_t id) {
    return lf_noise_gumbel(noise_of(seed, position, id));
}

double lf_sample_log(double x) {
    return lf_log64(x);
}

double lf_sample_exp(double x) {
    return lf_exp64(x);
}
