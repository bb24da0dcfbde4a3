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

// The pieces that a block takes, one after another.
class Pieces {
 public:
  __device__ void start(const DecodeArguments& a, const ShareStart& start) {
    split_ = before_ = begin_ = end_ = lastBefore_ = 0;
    total_ = shares_ = 1;
    if (a.numSplits > 0) {
      splits_ = a.numSplits;
      sequence_ = a.firstSequence + static_cast<int>(blockIdx.z);
      split_ = static_cast<int>(blockIdx.y);
      return;
    }
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
    const int tiles = tilesOf(a, sequence_);
    // 64-bit divisions would keep the block from beginning for 2 µs.
    const int each = static_cast<int>(static_cast<unsigned>(tiles) / static_cast<unsigned>(splits_));
    const int longer = tiles - each * splits_;  // the first ones have one tile more
    const int begin = split_ * each + min(split_, longer);
    fill(a, rows, piece, begin, begin + each + (split_ < longer ? 1 : 0));
    piece.slot = splits_ == 1 || a.merges ? -1 : split_ * a.sizes.batch + sequence_;
    first_ = split_ == 0;
    if (a.numSplits > 0) {
      sequence_ += static_cast<int>(gridDim.z);
    } else {
      const int item = split_ + static_cast<int>(gridDim.y);
      sequence_ += item / splits_;
      split_ = item % splits_;
    }
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
        fill(a, rows, piece, begin, end);
        first_ = begin == 0;
        piece.slot = end - begin == tiles ? -1 : 2 * static_cast<int>(blockIdx.y) + (first_ ? 1 : 0);
      }
      lastBefore_ = before_;
      before_ = firstTile + tiles;
      ++sequence_;
      if (mine) return true;
    }
    return false;
  }

  __device__ void fill(const DecodeArguments& a, const QueryRows& rows, Piece& piece, int begin,
                       int end) const {
    const int length = lengthOf(a, sequence_);
    piece.sequence = sequence_;
    piece.length = length;
    piece.begin = begin;
    piece.end = min(end, ceilTiles(a.sizes.seen(length, rows.lastQuery)));
    piece.everyoneSees = a.sizes.seen(length, rows.firstQuery);
  }

  int sequence_, split_, before_, begin_, end_, total_, shares_, lastBefore_, splits_;
  bool first_;
};

// A warpgroup's walk over its block's pieces, in shared memory for the sake of registers.
struct PieceWalk {
  Pieces pieces;
  Piece piece[2];  // by turns
  int more[2];
};

// The next piece, or null; leads: who writes down in which shares a sequence lies.
__device__ inline const Piece* nextPiece(PieceWalk& walk, int turn, const DecodeArguments& a,
                                         const QueryRows& rows, int thread, int barrier, bool leads) {
  Piece& piece = walk.piece[turn];
  if (thread == 0) {
    walk.more[turn] = walk.pieces.next(a, rows, piece);
    if (walk.more[turn] && leads && a.numSplits == 0 && walk.pieces.isFirst()) {
      waitForPrevious();
      a.shares[piece.sequence] = walk.pieces.sharesOfSequence(a);
    }
  }
  groupSync(barrier, 128);
  return walk.more[turn] ? &piece : nullptr;
}

}  // namespace decode
}  // namespace warpgraph
