// One token through a whole decoder, by all threads of one parallel region.
//
// Each block of products is three steps between barriers: list what the gates keep, multiply, collect the threads' sums.
// What follows a block (rotation and attention of a head, SiLU, the next norm) is done by the thread that collected its
// numbers, so that it needs no barrier of its own.
#pragma once
#include <algorithm>

#include "kernels.h"
#include "memory.h"
#include "pool.h"
#include "token_steps.h"

namespace WINA_ISA {
namespace token {

// Memory of one token in pieces of whole cache lines.
class Pieces {
 public:
  explicit Pieces(char* memory) : memory_(memory) {}
  template <class T>
  T* take(int64_t count) {
    char* const found = memory_ ? memory_ + bytes_ : nullptr;
    bytes_ += (count * int64_t(sizeof(T)) + 127) / 64 * 64;
    return reinterpret_cast<T*>(found);
  }
  int64_t bytes() const { return bytes_; }

 private:
  char* memory_;
  int64_t bytes_ = 0;
};

struct Product {
  wina::Lists lists;
  float* sums;  // [threads][padded(outputs)]
  void* scratch;
};

// What the threads of one token share.
struct Workspace {
  float *stream;    // [hidden], the residual stream
  float *block;     // outputs of the present block
  float *attended;  // [heads * head_dim]
  float *inputs;    // [threads][stride], each thread's normalized stream
  float *scores;    // [threads][capacity], attention's
  Product products[WINA_MOST_PROJECTIONS];
  int64_t stride, capacity;

  // Place everything in memory, or with null count alone; return the bytes.
  int64_t place(char* memory, const wina_model& model, const wina_cache& cache, int threads) {
    int64_t outputs = 0, sums = 0, room = 0;
    for (int index = 0; index < model.layers; ++index)
      for (const wina_block* own : {&model.layer[index].qkv, &model.layer[index].o, &model.layer[index].gate_up,
                                    &model.layer[index].down})
        measure(*own, outputs, sums, room);
    measure(model.head, outputs, sums, room);
    const int queries = model.heads * model.head_dim;
    const int64_t widest = std::max({model.hidden, model.units, queries});
    stride = lines(widest), capacity = lines(cache.capacity);
    Pieces pieces(memory);
    stream = pieces.take<float>(model.hidden);
    block = pieces.take<float>(outputs);
    attended = pieces.take<float>(queries);
    inputs = pieces.take<float>(threads * stride);
    scores = pieces.take<float>(threads * capacity);
    for (Product& own : products) {
      own.lists.room = room;
      own.lists.rows = pieces.take<int32_t>(room);
      own.lists.marks = pieces.take<uint8_t>(room);
      own.lists.values = pieces.take<float>(room);
      own.scratch = pieces.take<char>(wina::scratch_bytes(int32_t(widest)));
      own.sums = pieces.take<float>(threads * sums);
    }
    return pieces.bytes();
  }

 private:
  static int64_t lines(int64_t floats) { return (floats + 2 * LANES - 1) / LANES * LANES; }

  static void measure(const wina_block& block, int64_t& outputs, int64_t& sums, int64_t& room) {
    for (int at = 0; at < block.count; ++at) {
      const int64_t own = wina::padded(block.each[at].weight.outputs);
      outputs = std::max(outputs, block.each[at].first + own);
      sums = std::max(sums, own);
      room = std::max(room, wina::room_of(block.each[at].weight));
    }
  }
};

// One thread's part in a token.
class Member {
 public:
  Member(const wina::Kernels& kernels, const wina_model& model, const wina_cache& cache, Workspace& shared, int thread,
         int threads)
      : kernels_(kernels), model_(model), cache_(cache), shared_(shared), thread_(thread), threads_(threads) {}

  void decode(int token, int position, bool gated, float* logits) {
    const int hidden = model_.hidden, units = model_.units;
    float* const x = shared_.inputs + thread_ * shared_.stride;
    if (thread_ == 0) widen(model_.embedding, model_.embedding_format, token, hidden, shared_.stream);
    wait();
    for (int index = 0; index < model_.layers; ++index) {
      const wina_layer& layer = model_.layer[index];
      normalize(shared_.stream, layer.attention_norm, model_.epsilon, hidden, x);
      multiply(layer.qkv, x, gated);
      attention(layer, index, position);
      wait();
      multiply(layer.o, shared_.attended, gated);
      gather(layer.o, begin(hidden), end(hidden), true, shared_.stream);
      wait();
      normalize(shared_.stream, layer.mlp_norm, model_.epsilon, hidden, x);
      multiply(layer.gate_up, x, gated);
      const int first = begin(units), last = end(units);
      gather(layer.gate_up, first, last, false, shared_.block);
      gather(layer.gate_up, units + first, units + last, false, shared_.block);
      activate(shared_.block + first, shared_.block + units + first, last - first);
      wait();
      multiply(layer.down, shared_.block, gated);
      gather(layer.down, begin(hidden), end(hidden), true, shared_.stream);
      wait();
    }
    normalize(shared_.stream, model_.final_norm, model_.epsilon, hidden, x);
    multiply(model_.head, x, gated);
    gather(model_.head, begin(model_.vocabulary), end(model_.vocabulary), false, logits);
  }

 private:
  void wait() { wina::Pool::shared().barrier(); }

  // This thread's share of `count` numbers, in whole vectors.
  int begin(int count) const { return share_of(count, thread_); }
  int end(int count) const { return share_of(count, thread_ + 1); }
  int share_of(int count, int thread) const {
    const int64_t vectors = (count + LANES - 1) / LANES;
    return int(std::min<int64_t>(count, vectors * thread / threads_ * LANES));
  }

  // Gate and multiply x, which all threads see alike; the sums are complete when it returns.
  void multiply(const wina_block& block, const float* x, bool gated) {
    static const wina_gate open = {nullptr, nullptr, -1.0f, 0};
    for (int at = thread_; at < block.count; at += threads_) {
      const wina_projection& own = block.each[at];
      Product& product = shared_.products[at];
      if (own.dense) continue;
      const wina_gate& gate = gated && own.gated ? own.gate : open;
      kernels_.list(own.weight, gate, x, WINA_FLOAT32, 1, product.scratch, product.lists);
      if (own.counts && gated) own.counts[0] += product.lists.kept, own.counts[1] += own.weight.inputs;
      if (own.planes && gated) *own.planes += product.lists.read;
    }
    wait();
    for (int at = 0; at < block.count; ++at) {
      const wina_projection& own = block.each[at];
      const Product& product = shared_.products[at];
      const int m = own.weight.outputs;
      if (own.dense)
        dense(own.dense, own.dense_format, x, own.weight.inputs, begin(m), end(m), product.sums);
      else
        kernels_.multiply(own.weight, product.lists, 1, thread_, threads_, product.sums + thread_ * wina::padded(m));
    }
    wait();
  }

  // Collect outputs begin .. end of a block in y, or add them to it.
  void gather(const wina_block& block, int begin, int end, bool add, float* y) {
    for (int at = 0; at < block.count; ++at) {
      const wina_projection& own = block.each[at];
      const int m = own.weight.outputs, first = std::max(begin - own.first, 0), last = std::min(end - own.first, m);
      if (first < last)
        collect(shared_.products[at].sums, wina::padded(m), own.dense ? 1 : threads_, own.bias, first, last, add,
                y + own.first);
    }
  }

  // Attend with this thread's key-value heads and all queries that read them.
  void attention(const wina_layer& layer, int index, int position) {
    const int dim = model_.head_dim, group = model_.heads / model_.kv_heads, half = model_.rotary_dim / 2;
    const float* const cosines = model_.cosines + int64_t(position) * half;
    const float* const sines = model_.sines + int64_t(position) * half;
    const int first = layer.window && position >= layer.window ? position + 1 - layer.window : 0;
    float* const scores = shared_.scores + thread_ * shared_.capacity;
    const int last = model_.kv_heads * (thread_ + 1) / threads_;
    for (int head = model_.kv_heads * thread_ / threads_; head < last; ++head) {
      const int query = head * group * dim, key = (model_.heads + head) * dim, value = key + model_.kv_heads * dim;
      gather(layer.qkv, query, query + group * dim, false, shared_.block);
      gather(layer.qkv, key, key + dim, false, shared_.block);
      gather(layer.qkv, value, value + dim, false, shared_.block);
      float* const own_key = shared_.block + key;
      if (layer.key_norm) normalize(own_key, layer.key_norm, model_.epsilon, dim, own_key);
      rotate(own_key, cosines, sines, model_.rotary_dim);
      void* const keys = plane(index, 0, head);
      void* const values = plane(index, 1, head);
      narrow(own_key, dim, cache_.format, keys, position);
      narrow(shared_.block + value, dim, cache_.format, values, position);
      for (int at = query; at < query + group * dim; at += dim) {
        float* const own = shared_.block + at;
        if (layer.query_norm) normalize(own, layer.query_norm, model_.epsilon, dim, own);
        rotate(own, cosines, sines, model_.rotary_dim);
        for (int i = 0; i < dim; ++i) own[i] *= model_.attention_scale;
        attend(own, keys, values, cache_.format, first, position + 1, dim, scores, shared_.attended + at);
      }
    }
  }

  void* plane(int index, int kind, int head) const {
    const int64_t plane = (int64_t(index) * 2 + kind) * model_.kv_heads + head;
    const int64_t size = cache_.format == WINA_FLOAT32 ? 4 : 2;
    return static_cast<char*>(cache_.memory) + plane * cache_.capacity * model_.head_dim * size;
  }

  const wina::Kernels& kernels_;
  const wina_model& model_;
  const wina_cache& cache_;
  Workspace& shared_;
  const int thread_, threads_;
};

inline int32_t decode(const wina::Kernels& kernels, const wina_model& model, const wina_cache& cache, int32_t token,
                      int32_t position, bool gated, int32_t threads, float* logits) {
  static thread_local wina::Buffer buffer;
  Workspace shared;
  auto* const memory = static_cast<char*>(buffer.at_least(size_t(shared.place(nullptr, model, cache, threads))));
  if (!memory) return -1;
  shared.place(memory, model, cache, threads);
  wina::Pool::shared().run(threads, [&](int thread, int team) {
    Member(kernels, model, cache, shared, thread, team).decode(token, position, gated, logits);
  });
  return 0;
}

}  // namespace token
}  // namespace WINA_ISA
