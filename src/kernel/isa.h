// One kernel source is compiled once an instruction set: the same operations, the same bits.
#pragma once

#ifndef LF_ISA
#define LF_ISA portable
#endif
#define LF_ISA_JOIN2(name, isa) name##_##isa
#define LF_ISA_JOIN(name, isa) LF_ISA_JOIN2(name, isa)
// lf_rms_norm -> lf_rms_norm_avx2
#define LF_KERNEL_NAME(name) LF_ISA_JOIN(name, LF_ISA)

// Planted faults: 0 in every served build; tests compile single files with -DLF_FAULT=n.
#ifndef LF_FAULT
#define LF_FAULT 0
#endif
