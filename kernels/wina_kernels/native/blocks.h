// What products with codes have in common: chunks of listed rows, read in segments, interleaved and multiplied in blocks.
#pragma once
#include "chunks.h"

namespace WINA_ISA {

constexpr int BLOCKS = SEGMENT / WIDTH;
constexpr int MOST_QUADS = MOST_CHUNK / 4;

// Bytes of four rows side by side: a block of a segment.
struct Tile {
  Bytes v[4];
};

// The rows of a chunk, filled up to fours with the first one, which counts 0 there.
struct ChunkRows {
  const uint8_t* at[MOST_CHUNK];
  int32_t quads;
};

// Interleave a block of WIDTH bytes of four rows.
template <int bits>
inline void interleave_at(const uint8_t* const rows[4], int64_t at, Tile& tile) {
  Bytes a = load_bytes(rows[0] + at), b = load_bytes(rows[1] + at);
  Bytes c = load_bytes(rows[2] + at), d = load_bytes(rows[3] + at);
  if (bits == 8) a = flip_signs(a), b = flip_signs(b), c = flip_signs(c), d = flip_signs(d);
  interleave(a, b, c, d, tile.v);
}

// The factor of codes that stay where they are in their bytes.
template <int bits>
constexpr float unshifted(int place) {
  return 1.0f / float(1 << (bits * place));
}

// Set sums[place][v] to the sums of a block's codes times inputs, 2^(bits * place) times as large; tile_of(quad) returns
// four rows of the block.
template <int bits, class TileOf>
inline void multiply_block(int32_t quads, const Rounded& inputs, TileOf&& tile_of, Floats sums[8 / bits][4]) {
  constexpr int each = 8 / bits, places = each < SUMS ? each : SUMS, vectors = SUMS / places < 4 ? SUMS / places : 4;
#pragma GCC unroll 2
  for (int first = 0; first < each; first += places)
#pragma GCC unroll 4
    for (int from = 0; from < 4; from += vectors) {
      Sum own[places][vectors];
#pragma GCC unroll 8
      for (int place = 0; place < places; ++place)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) own[place][v] = no_sum();
      for (int32_t quad = 0; quad < quads; ++quad) {
        const Tile& tile = tile_of(quad);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
#pragma GCC unroll 8
          for (int place = 0; place < places; ++place)
            add(own[place][v], masked(tile.v[from + v], ((1 << bits) - 1) << (bits * (first + place))),
                inputs.first[quad], inputs.second[quad]);
      }
#pragma GCC unroll 8
      for (int place = 0; place < places; ++place)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[first + place][from + v] = to_floats(whole(own[place][v]));
    }
}

// Bring a block's sums, ordered by place in a byte and then by byte in found[0], into the order of outputs; return where
// they are. Places p and p + half are neighbours once every other pair is: zip until one stretch is left.
template <int bits>
inline const float* zipped(float (&found)[2][WIDTH * 8 / bits]) {
  int side = 0;
  for (int stretches = 8 / bits; stretches > 1; stretches /= 2, side ^= 1) {
    const int length = WIDTH * 8 / bits / stretches;
    for (int pair = 0; pair < stretches / 2; ++pair)
      for (int at = 0; at < length; at += LANES)
        zip(load(found[side] + pair * length + at), load(found[side] + (pair + stretches / 2) * length + at),
            found[side ^ 1] + 2 * (pair * length + at));
  }
  return found[side];
}

// Call add(tiles, block, j) for each block of rows of m codes, j its first output; bytes beyond m are anything. A segment
// of four rows after four is interleaved, then its blocks are added. Meanwhile the next segment is fetched, half of it in
// each step; after the last one the first of `following`, the next chunk's rows.
template <int bits, class Add>
inline void each_block(const ChunkRows& rows, int32_t m, const ChunkRows& following, Add&& add) {
  constexpr int each = 8 / bits, outputs = WIDTH * each;
  const int32_t quads = rows.quads, whole_blocks = m / outputs;
  Tile tiles[MOST_QUADS][BLOCKS];
  for (int32_t first = 0; first < whole_blocks; first += BLOCKS) {
    const int32_t blocks = whole_blocks - first < BLOCKS ? whole_blocks - first : BLOCKS;
    const bool ends = first + BLOCKS >= whole_blocks;
    const ChunkRows& soon = ends ? following : rows;
    const int64_t at = ends ? 0 : int64_t(first + BLOCKS) * WIDTH;
    for (int32_t quad = 0; quad < quads; ++quad)
      for (int32_t block = 0; block < blocks; ++block) {
        if (quad < soon.quads && block * WIDTH % 64 == 0)
          for (int k = 0; k < 2; ++k) prefetch(soon.at[4 * quad + k] + at + block * WIDTH);
        interleave_at<bits>(rows.at + 4 * quad, int64_t(first + block) * WIDTH, tiles[quad][block]);
      }
    for (int32_t block = 0; block < blocks; ++block) {
      if (block * WIDTH % 64 == 0)
        for (int32_t quad = 0; quad < soon.quads; ++quad)
          for (int k = 2; k < 4; ++k) prefetch(soon.at[4 * quad + k] + at + block * WIDTH);
      add(tiles, block, (first + block) * outputs);
    }
  }
  const int32_t rest = m - whole_blocks * outputs;
  if (!rest) return;
  alignas(64) uint8_t last[4][WIDTH] = {};
  const uint8_t* from[4] = {last[0], last[1], last[2], last[3]};
  for (int32_t quad = 0; quad < quads; ++quad) {
    for (int k = 0; k < 4; ++k)
      memcpy(last[k], rows.at[4 * quad + k] + int64_t(whole_blocks) * WIDTH, size_t((rest + each - 1) / each));
    interleave_at<bits>(from, 0, tiles[quad][0]);
  }
  add(tiles, 0, whole_blocks * outputs);
}

inline ChunkRows rows_of(const wina_run& run, const int32_t* listed, int32_t run_first, const Chunk& chunk) {
  ChunkRows rows;
  rows.quads = (chunk.count + 3) / 4;
  for (int32_t k = 0; k < 4 * rows.quads; ++k)
    rows.at[k] = row_at(run, listed[chunk.first + (k < chunk.count ? k : 0)] - run_first);
  return rows;
}

// Call add(group, rows, inputs, following) for each chunk of the listed rows at .. end of a run, and exactly(row of x, row,
// group, x) for those whose inputs cannot be rounded.
template <class Add, class Exactly>
inline void each_chunk(const wina_run& run, int32_t run_first, const wina::Lists& lists, int32_t at, int32_t end,
                       int32_t batch, Add&& add, Exactly&& exactly) {
  Chunk chunk = chunk_at(run, lists.rows, run_first, at, end, MOST_CHUNK);
  ChunkRows rows = rows_of(run, lists.rows, run_first, chunk);
  while (chunk.count) {
    const Chunk then = chunk_at(run, lists.rows, run_first, chunk.first + chunk.count, end, MOST_CHUNK);
    const ChunkRows following = rows_of(run, lists.rows, run_first, then);
    Rounded inputs[WINA_MOST_ROWS];
    for (int32_t row = 0; row < batch; ++row) {
      const float* x = lists.values + row * lists.room + chunk.first;
      if (round_inputs(x, chunk.count, inputs[row])) continue;
      for (int32_t k = 0; k < chunk.count; ++k)
        if (lists.marks[chunk.first + k] >> row & 1) exactly(row, lists.rows[chunk.first + k] - run_first, chunk.group, x[k]);
      inputs[row].any = false;
    }
    add(chunk.group, rows, inputs, following);
    chunk = then;
    rows = following;
  }
}

}  // namespace WINA_ISA
