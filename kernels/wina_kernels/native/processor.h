// What this processor has, asked of itself: a compiler's own check is not in every compiler's run-time library.
#pragma once
#include <stdint.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace wina {

struct Processor {
  bool avx2 = false, avxvnni = false, avx512 = false, avx512vnni = false, avx512bf16 = false, amx = false;
};

inline Processor processor() {
  Processor found;
#if defined(__x86_64__)
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  const bool fma = c >> 12 & 1, saves = c >> 27 & 1, half = c >> 29 & 1;
  if (!saves) return found;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const bool wide = (low & 0x6) == 0x6, widest = (low & 0xE6) == 0xE6;  // registers that the system saves
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  found.avx2 = wide && fma && half && (b >> 5 & 1);
  found.avx512 = found.avx2 && widest && (b >> 16 & 1) && (b >> 30 & 1) && (b >> 31 & 1) && (b >> 17 & 1);
  found.avx512vnni = found.avx512 && (c >> 11 & 1);
  found.amx = d >> 22 & 1;  // in bfloat16
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d)) return found;
  found.avxvnni = found.avx2 && (a >> 4 & 1);
  found.avx512bf16 = found.avx512 && (a >> 5 & 1);
#endif
  return found;
}

}  // namespace wina
