// The functions of the C ABI.
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "kernels.h"
#include "many_rows.h"
#include "memory.h"
#include "pool.h"
#include "processor.h"

extern const wina::Kernels wina_kernels_base;
#if defined(__x86_64__)
extern const wina::Kernels wina_kernels_avx2, wina_kernels_avxvnni, wina_kernels_avx512, wina_kernels_avx512vnni;
#endif

namespace {

const wina::Kernels* named(const char* name) {  // null for the best
  const wina::Processor has = wina::processor();
  const struct {
    bool there;
    const wina::Kernels* kernels;
  } all[] = {
#if defined(__x86_64__)
      {has.avx512vnni, &wina_kernels_avx512vnni},
      {has.avxvnni, &wina_kernels_avxvnni},
      {has.avx512, &wina_kernels_avx512},
      {has.avx2, &wina_kernels_avx2},
#endif
      {true, &wina_kernels_base},
  };
  for (const auto& each : all)
    if (each.there && (!name || !strcmp(name, each.kernels->name))) return each.kernels;
  return nullptr;
}

const wina::Kernels*& in_use() {
  static const wina::Kernels* kernels = named(nullptr);
  return kernels;
}

}  // namespace

namespace wina {
const Kernels& kernels() { return *in_use(); }
}  // namespace wina

extern "C" {

int32_t wina_product(const wina_weight* weight, const wina_gate* gate, const void* x, int32_t x_format, int32_t rows,
                     void* y, int32_t y_format, int32_t threads, wina_counts* counts) {
  static thread_local wina::Buffer memory;
  const int64_t room = wina::room_of(*weight), sums_bytes = wina::padded(weight->outputs) * rows * 4;
  const int64_t scratch = (wina::scratch_bytes(weight->inputs) + 63) / 64 * 64;
  const int64_t values = room * rows * 4, listed = room * 4;
  auto* at = static_cast<uint8_t*>(memory.at_least(size_t(sums_bytes * threads + scratch + values + listed + room)));
  if (!at) return -1;
  auto* sums = reinterpret_cast<float*>(at);
  at += sums_bytes * threads;
  wina::Lists lists;
  lists.room = room;
  uint8_t* own = at + scratch;
  lists.values = reinterpret_cast<float*>(own);
  lists.rows = reinterpret_cast<int32_t*>(own + values);
  lists.marks = own + values + listed;
  const wina::Kernels& kernels = wina::kernels();
  kernels.list(*weight, *gate, x, x_format, rows, at, lists);
  auto& pool = wina::Pool::shared();
  pool.run(threads, [&](int thread, int team) {
    kernels.multiply(*weight, lists, rows, thread, team, sums + thread * sums_bytes / 4);
    pool.barrier();
    const int32_t m = weight->outputs, width = ((m + team - 1) / team + 15) / 16 * 16;
    const int32_t first = thread * width, last = first + width < m ? first + width : m;
    if (first < last) kernels.add_up(sums, team, rows, m, first, last, y, y_format);
  });
  *counts = {lists.kept, lists.read};
  return 0;
}

int32_t wina_gate_rows(const wina_gate* gate, const void* x, int32_t format, int64_t rows, int32_t inputs,
                       const uint8_t* whole, void* out, int32_t* kept, int32_t threads) {
  static thread_local wina::Buffer memory;
  const int64_t each = (int64_t(inputs) * 4 + 15) / 16 * 16;  // whole cache lines, so that threads share none
  auto* const scratch = static_cast<int32_t*>(memory.at_least(size_t(each * threads) * 4));
  if (!scratch) return -1;
  const wina::Rows given{x, format, inputs, whole, out, kept};
  const wina::Kernels& kernels = wina::kernels();
  wina::Pool::shared().run(threads, [&](int thread, int team) {
    kernels.gate(*gate, given, rows * thread / team, rows * (thread + 1) / team, scratch + each * thread);
  });
  return 0;
}

int32_t wina_many_rows(const void* weight_t, int64_t stride, int32_t inputs, int32_t outputs, const void* bias, const void* x,
                       int64_t rows, void* y, int32_t y_format, int32_t threads) {
#if defined(__x86_64__)
  static const wina::Processor has = wina::processor();
  const bool peer = has.amx && y_format == WINA_BFLOAT16;  // PyTorch's, by AMX; no machine with it has compared the two
  if (!has.avx512bf16 || peer) return 1;
  constexpr int64_t most = 1024;  // rows at a time, so that copies of x stay small
  const int64_t parts = (rows + most - 1) / most;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = rows * part / parts, last = rows * (part + 1) / parts;
    wina::ManyRows given{static_cast<const uint16_t*>(weight_t), stride, inputs, outputs,
                               static_cast<const uint16_t*>(bias), static_cast<const uint16_t*>(x) + first * inputs,
                               int32_t(last - first), y, y_format};
    given.y = static_cast<uint8_t*>(y) + first * outputs * given.y_bytes();
    if (!wina::many_rows_avx512bf16(given, threads)) return -1;
  }
  return 0;
#else
  (void)weight_t, (void)stride, (void)inputs, (void)outputs, (void)bias, (void)x, (void)rows, (void)y, (void)y_format, (void)threads;
  return 1;
#endif
}

int32_t wina_decode(const wina_model* model, const wina_cache* cache, int32_t token, int32_t position, int32_t gated,
                    int32_t threads, float* logits) {
  const wina::Kernels& kernels = wina::kernels();
  return kernels.decode(kernels, *model, *cache, token, position, gated != 0, threads, logits);
}

void wina_use_huge_pages(void* memory, int64_t bytes) {
#ifdef __linux__
  constexpr uintptr_t size = 1 << 21;
  constexpr int collapse = 25;  // MADV_COLLAPSE, since Linux 6.1
  const auto from = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first = (from + size - 1) / size * size, last = (from + uintptr_t(bytes)) / size * size;
  if (first >= last) return;
  void* const pages = reinterpret_cast<void*>(first);
  if (madvise(pages, last - first, MADV_HUGEPAGE) == 0) madvise(pages, last - first, collapse);
#else
  (void)memory, (void)bytes;
#endif
}

void wina_use_openmp(void* parallel, void* team_size, void* team_thread) {
  wina::Pool::shared().use_openmp(reinterpret_cast<wina::Pool::Parallel>(parallel),
                                  reinterpret_cast<wina::Pool::Number>(team_size),
                                  reinterpret_cast<wina::Pool::Number>(team_thread));
}

const char* wina_instructions(void) { return wina::kernels().name; }

int32_t wina_use_instructions(const char* name) {
  const wina::Kernels* found = named(name);
  if (found) in_use() = found;
  return found != nullptr;
}

int32_t wina_abi(void) { return WINA_ABI; }
}
