// One token through a whole decoder in one call: the C ABI. Python's mirror is native/token.py.
#pragma once
#include "wina.h"

#ifdef __cplusplus
extern "C" {
#endif

// A linear layer, or some rows of one: outputs first .. first + weight.outputs of its block.
typedef struct {
  wina_weight weight;  // W^T; with `dense`, its sizes alone
  wina_gate gate;      // without masks
  const void* dense;   // W [m, n] row-major in a wina_format, read in full; null for `weight`
  int32_t dense_format, first;
  int32_t gated;        // 0 if every input is read
  int64_t* counts;      // inputs kept and seen, added to while gated; null without counts
  int64_t* planes;      // planes read, likewise
  const float* bias;    // [m] or null
} wina_projection;

// Linear layers that read the same input.
typedef struct {
  int32_t count;  // 1 to WINA_MOST_PROJECTIONS
  const wina_projection* each;
} wina_block;

typedef struct {
  const float *attention_norm, *mlp_norm;  // gains [hidden]
  const float *query_norm, *key_norm;      // gains [head_dim], or null without
  wina_block qkv, o, gate_up, down;
  int32_t window;  // positions that attention sees, the own one included; 0 for all
} wina_layer;

// A decoder with RMSNorms before attention and MLP, rotary halves, grouped queries and a gated MLP with SiLU.
typedef struct {
  int32_t hidden, units, heads, kv_heads, head_dim, rotary_dim, vocabulary, layers;
  float epsilon, attention_scale;
  int32_t embedding_format;
  const void* embedding;          // [vocabulary, hidden]
  const float *cosines, *sines;   // [positions, rotary_dim / 2]
  const float* final_norm;        // [hidden]
  const wina_layer* layer;
  wina_block head;
} wina_model;

// Keys and values [layers][2][kv_heads][capacity][head_dim] in float32 or bfloat16.
typedef struct {
  void* memory;
  int32_t format, capacity;
} wina_cache;

enum { WINA_MOST_PROJECTIONS = 3 };

// Read one token at `position`, whose predecessors the cache holds, and set logits [vocabulary] for the next one; with
// `gated` 0 every input is kept. Return 0, or -1 without memory.
int32_t wina_decode(const wina_model* model, const wina_cache* cache, int32_t token, int32_t position, int32_t gated,
                    int32_t threads, float* logits);

// Ask for huge pages under memory that every token reads, so that fewer addresses are translated. It is advice: where the
// system has none left or knows none, nothing changes.
void wina_use_huge_pages(void* memory, int64_t bytes);

#ifdef __cplusplus
}
#endif
