// What a block takes of each sequence, one piece after another, and how its warpgroups walk over them.
#pragma once

#include "cuda/mla_decode_barriers.cuh"
#include "cuda/mla_decode_share.cuh"

namespace warpgraph {
namespace decode {

// Consecutive tiles of keys of one sequence.
struct Piece {
  int sequence;
  int slot;          // of the partial results; −1: none, of all the sequence's keys or where clusters merge
  int begin, end;    // tiles; none when end ≤ begin
  int everyoneSees;  // keys that all the block's queries see
  int length;        // keys of the sequence
};

// Of a sequence's tiles those from begin to end - 1 that the block's queries see.
__device__ inline Piece pieceOf(const DecodeArguments& a, const QueryRows& rows, int sequence, int begin,
                                int end) {
  const int length = lengthOf(a, sequence);
  Piece piece;
  piece.sequence = sequence;
  piece.slot = -1;
  piece.begin = begin;
  piece.end = min(end, ceilTiles(a.sizes.seen(length, rows.lastQuery)));
  piece.everyoneSees = a.sizes.seen(length, rows.firstQuery);
  piece.length = length;
  return piece;
}

// A split of a sequence, one of nearly equal ones.
__device__ inline Piece splitOf(const DecodeArguments& a, const QueryRows& rows, int sequence, int splits,
                                int split) {
  const int tiles = tilesOf(a, sequence);
  // 64-bit divisions would keep the block from beginning for 2 µs.
  const int each = static_cast<int>(static_cast<unsigned>(tiles) / static_cast<unsigned>(splits));
  const int longer = tiles - each * splits;  // the first ones have one tile more
  const int begin = split * each + min(split, longer);
  Piece piece = pieceOf(a, rows, sequence, begin, begin + each + (split < longer ? 1 : 0));
  if (splits > 1) piece.slot = split * a.sizes.batch + sequence;
  return piece;
}

// The n-th piece of a block where the host knows the splits, while there is one.
template <Cut kCut>
__device__ inline bool knownPiece(const DecodeArguments& a, const QueryRows& rows, int n, Piece& piece) {
  constexpr bool kMerges = kCut == Cut::kMerges;
  if (kMerges && n > 0) return false;  // as the grid has it; but the compiler should know
  const int sequence = a.firstSequence + static_cast<int>(blockIdx.z) + n * static_cast<int>(gridDim.z);
  if (sequence >= a.endSequence) return false;
  const int splits = kMerges ? kMergedSplits : a.numSplits;
  piece = splitOf(a, rows, sequence, splits, static_cast<int>(blockIdx.y));
  if (kMerges) piece.slot = -1;
  return true;
}

// The pieces that a block takes, one after another, where it finds its share itself.
class SharePieces {
 public:
  __device__ void start(const ShareStart& start) {
    split_ = before_ = begin_ = end_ = lastBefore_ = 0;
    total_ = shares_ = 1;
    splits_ = start.splits;
    if (splits_ > 0) {
      sequence_ = static_cast<int>(blockIdx.y) / splits_;
      split_ = static_cast<int>(blockIdx.y) % splits_;
      return;
    }
    sequence_ = start.sequence;
    before_ = start.before;
    total_ = start.total;
    shares_ = start.shares;
    begin_ = shareBegin(min(static_cast<int>(blockIdx.y), shares_), total_, shares_);
    end_ = shareBegin(min(static_cast<int>(blockIdx.y) + 1, shares_), total_, shares_);
  }

  __device__ bool next(const DecodeArguments& a, const QueryRows& rows, Piece& piece) {
    if (sequence_ >= a.endSequence) return false;
    return splits_ > 0 ? nextSplit(a, rows, piece) : nextOfShare(a, rows, piece);
  }

  // Whether the last piece is its sequence's first.
  __device__ bool isFirst() const { return first_; }
  // Where the last piece's sequence lies, as MlaPartials wants it.
  __device__ int2 sharesOfSequence(const DecodeArguments& a) const {
    if (splits_ > 0) return {0, -splits_};
    const int firstTile = lastBefore_ + a.overhead;
    if (before_ == firstTile) return {0, 1};
    const int first = shareOf(firstTile, total_, shares_);
    return {first, shareOf(before_ - 1, total_, shares_) - first + 1};
  }

 private:
  __device__ bool nextSplit(const DecodeArguments& a, const QueryRows& rows, Piece& piece) {
    piece = splitOf(a, rows, sequence_, splits_, split_);
    first_ = split_ == 0;
    const int item = split_ + static_cast<int>(gridDim.y);
    sequence_ += item / splits_;
    split_ = item % splits_;
    return true;
  }

  __device__ bool nextOfShare(const DecodeArguments& a, const QueryRows& rows, Piece& piece) {
    while (sequence_ < a.sizes.batch && before_ < end_) {
      const int tiles = tilesOf(a, sequence_);
      const int firstTile = before_ + a.overhead;
      const int begin = max(begin_ - firstTile, 0);
      const int end = min(max(end_ - firstTile, 0), tiles);
      // Who has a sequence's beginning writes the result of one without keys.
      const bool mine = end > begin || (tiles == 0 && before_ >= begin_);
      if (mine) {
        piece = pieceOf(a, rows, sequence_, begin, end);
        first_ = begin == 0;
        if (end - begin != tiles) piece.slot = 2 * static_cast<int>(blockIdx.y) + (first_ ? 1 : 0);
      }
      lastBefore_ = before_;
      before_ = firstTile + tiles;
      ++sequence_;
      if (mine) return true;
    }
    return false;
  }

  int sequence_, split_, before_, begin_, end_, total_, shares_, lastBefore_, splits_;
  bool first_;
};

// What a fetching thread does: for each of its block's pieces, where it has keys.
template <Cut kCut, typename Fetch>
__device__ inline void forEachPiece(const DecodeArguments& a, const QueryRows& rows, const ShareStart& start,
                                    const Fetch& fetch) {
  Piece piece{};
  if constexpr (kCut == Cut::kShares) {
    SharePieces pieces;
    pieces.start(start);
    while (pieces.next(a, rows, piece)) {
      if (piece.begin < piece.end) fetch(piece);
    }
  } else {
    for (int n = 0; knownPiece<kCut>(a, rows, n, piece); ++n) {
      if (piece.begin < piece.end) fetch(piece);
    }
  }
}

// A warpgroup's walk over its block's pieces, in shared memory for the sake of registers.
struct PieceWalk {
  SharePieces pieces;
  Piece piece[2];  // by turns
  int more[2];
};

// The n-th piece, or null; to be asked for one after the other, from 0 on. leads: who writes down in which
// shares a sequence lies.
template <Cut kCut>
__device__ inline const Piece* nextPiece(PieceWalk& walk, int n, const DecodeArguments& a,
                                         const QueryRows& rows, const ShareStart& start, int thread,
                                         int barrier, bool leads) {
  const int turn = n % 2;
  Piece& piece = walk.piece[turn];
  if (thread == 0) {
    if constexpr (kCut == Cut::kShares) {
      if (n == 0) walk.pieces.start(start);
      walk.more[turn] = walk.pieces.next(a, rows, piece);
      if (walk.more[turn] && leads && walk.pieces.isFirst()) {
        waitForPrevious();
        a.shares[piece.sequence] = walk.pieces.sharesOfSequence(a);
      }
    } else {
      walk.more[turn] = knownPiece<kCut>(a, rows, n, piece);
    }
  }
  groupSync(barrier, 128);
  return walk.more[turn] ? &piece : nullptr;
}

}  // namespace decode
}  // namespace warpgraph
