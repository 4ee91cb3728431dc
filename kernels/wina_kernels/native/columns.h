// What products with codes have in common: chunks of listed rows, read side by side in columns of a vector's bytes,
// interleaved and multiplied.
#pragma once
#include <type_traits>

#include "chunks.h"

namespace WINA_ISA {

constexpr int MOST_QUADS = MOST_CHUNK / 4;

// Bytes of four rows side by side: of a column.
struct Tile {
  Bytes v[4];
};

// The rows of a chunk, filled up to fours with the first one, which counts 0 there.
struct ChunkRows {
  const uint8_t* at[MOST_CHUNK];
  int32_t quads;
  bool joined;  // stand one after the other

  int32_t lines() const { return 4 * quads; }  // of a column
};

// A column of rows, and what is fetched meanwhile.
template <class Rows>
struct Column {
  const Rows& rows;
  int64_t at;
  int32_t bytes;  // of the column that are there; zeros stand behind them
  const Rows& soon;
  int64_t soon_at;
  const uint8_t* joined;  // what is read next where that stands in order, which is fetched so; else null
};

// Call add(whole, column) for each column of rows of so many bytes; `following` are read next.
template <class Rows, class Add>
inline void each_column(const Rows& rows, const Rows& following, const uint8_t* joined, int64_t bytes, Add&& add) {
  const int64_t end = bytes / WIDTH * WIDTH, far = 64 * (AHEAD / rows.lines()), ahead = far < end ? far : end;
  for (int64_t at = 0; at < end; at += WIDTH) {
    const bool here = at + ahead < end;
    const Column<Rows> column{rows, at, WIDTH, here ? rows : following, at + ahead - (here ? 0 : end), joined};
    add(std::true_type(), column);
  }
  if (end < bytes) add(std::false_type(), Column<Rows>{rows, end, int32_t(bytes - end), following, end, nullptr});
}

template <bool whole>
inline Bytes load_column(const uint8_t* from, int32_t bytes) {
  if (whole) return load_bytes(from);
  alignas(64) uint8_t found[WIDTH] = {};
  memcpy(found, from, size_t(bytes));
  return load_bytes(found);
}

constexpr int NEAREST = 3, SECOND = 2;  // caches that lines are fetched to

// Fetch a line of a row, once.
template <int cache>
inline void fetch(const uint8_t* row, int64_t at) {
  if (WIDTH >= 64 || at % 64 == 0) __builtin_prefetch(row + at, 0, cache);
}

// Return four rows of a column side by side. Rows that stand in order are fetched to the nearest cache at once; lines of
// others to the second one, and a line ahead to the nearest: some processors drop fetches to the second for milliseconds.
template <int bits, bool whole>
inline Tile tile_at(const Column<ChunkRows>& column, int32_t quad) {
  Bytes codes[4];
  Tile tile;
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    codes[k] = load_column<whole>(column.rows.at[4 * quad + k] + column.at, column.bytes);
    if (bits == 8) codes[k] = flip_signs(codes[k]);
    if (column.joined) {
      fetch<NEAREST>(column.joined, (column.at * column.rows.quads + quad * WIDTH) * 4 + k * WIDTH);
    } else {
      if (quad < column.soon.quads) fetch<SECOND>(column.soon.at[4 * quad + k], column.soon_at);
      fetch<NEAREST>(column.rows.at[4 * quad + k], column.at + 64);
    }
  }
  interleave(codes[0], codes[1], codes[2], codes[3], tile.v);
  return tile;
}

// The factor of codes that stay where they are in their bytes.
template <int bits>
constexpr float unshifted(int place) {
  return 1.0f / float(1 << (bits * place));
}

// Whether a column's sums stay in registers, so that each of its rows is read once.
template <int bits>
constexpr bool AT_ONCE = 8 / bits * 4 <= SUMS;

// Set sums[place][v] to the sums of a column's codes times inputs, 2^(bits * place) times as large; tile_of(quad) returns
// four rows of the column.
template <int bits, class TileOf>
inline void multiply_column(int32_t quads, const Rounded& inputs, TileOf&& tile_of, Floats sums[8 / bits][4]) {
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

// Put a column's sums, of each place in a byte in the order of the bytes, into the order of outputs; return where they are.
// Places p and p + half are neighbours once every other pair is: zip until one stretch is left.
template <int bits>
inline const float* zipped(const Floats (&sums)[8 / bits][4], float (&found)[2][WIDTH * 8 / bits]) {
  constexpr int each = 8 / bits, half = each / 2;
  if (each == 1)
    for (int v = 0; v < 4; ++v) store(found[0] + v * LANES, sums[0][v]);
  for (int pair = 0; pair < half; ++pair)
    for (int v = 0; v < 4; ++v) zip(sums[pair][v], sums[pair + half][v], found[0] + 2 * (pair * WIDTH + v * LANES));
  int side = 0;
  for (int stretches = half; stretches > 1; stretches /= 2, side ^= 1) {
    const int length = WIDTH * each / stretches;
    for (int pair = 0; pair < stretches / 2; ++pair)
      for (int at = 0; at < length; at += LANES)
        zip(load(found[side] + pair * length + at), load(found[side] + (pair + stretches / 2) * length + at),
            found[side ^ 1] + 2 * (pair * length + at));
  }
  return found[side];
}

inline ChunkRows rows_of(const wina_run& run, const int32_t* listed, int32_t run_first, const Chunk& chunk) {
  ChunkRows rows;
  rows.quads = (chunk.count + 3) / 4;
  for (int32_t k = 0; k < 4 * rows.quads; ++k)
    rows.at[k] = row_at(run, listed[chunk.first + (k < chunk.count ? k : 0)] - run_first);
  const int32_t* const own = listed + chunk.first;
  rows.joined = chunk.count > 0 && chunk.count == 4 * rows.quads && own[chunk.count - 1] - own[0] == chunk.count - 1;
  return rows;
}

// Call add(group, rows, inputs, following) for each chunk of the listed rows at .. end of a run, and exactly(row of x, row,
// group, x) for those whose inputs cannot be rounded.
template <class Add, class Exactly>
inline void each_chunk(const wina_run& run, int32_t run_first, const wina::Lists& lists, int32_t at, int32_t end,
                       int32_t batch, Add&& add, Exactly&& exactly) {
  const int32_t most = run.format == 8 ? FEW_ROWS : MOST_CHUNK;
  Chunk chunk = chunk_at(run, lists.rows, run_first, at, end, most);
  ChunkRows rows = rows_of(run, lists.rows, run_first, chunk);
  while (chunk.count) {
    const Chunk then = chunk_at(run, lists.rows, run_first, chunk.first + chunk.count, end, most);
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
