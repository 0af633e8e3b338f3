// The three quantizers of model.md 3.2: bf16 in, codes and scale of one group out.
#pragma once
#include <stdint.h>

enum { LF_QA8_GROUP = 32, LF_QF4E_GROUP = 32, LF_QF4S_GROUP = 16 };

// QA8: e4m3 codes, returns the UE8M0 scale byte k + 127.
uint8_t lf_qa8_group(const uint16_t x[LF_QA8_GROUP], uint8_t codes[LF_QA8_GROUP]);
// QF4e: e2m1 codes, one a byte (low nibble), returns the UE8M0 scale byte.
uint8_t lf_qf4e_group(const uint16_t x[LF_QF4E_GROUP], uint8_t codes[LF_QF4E_GROUP]);
// QF4s: e2m1 codes, one a byte (low nibble), returns the e4m3 scale byte.
uint8_t lf_qf4s_group(const uint16_t x[LF_QF4S_GROUP], uint8_t codes[LF_QF4S_GROUP]);
