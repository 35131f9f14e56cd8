#include "cpu/program/reorder.h"

#include <cstring>

#include "cpu/engines/strided.h"

namespace ephost::cpu {

Kernel make_reorder(const Desc& from, Layout to) {
  const int64_t batch = from.dims[0], channels = from.dims[1];
  const int64_t inner = count(from.dims, 2, from.dims.size());
  const int64_t from_block = block_of(from.layout), to_block = block_of(to),
                block = std::max(from_block, to_block), blocks = (channels + block - 1) / block;
  if (std::min(from_block, to_block) > 1) {
    fail("a change from one blocked layout to another");  // Goes by way of a plain one.
  }
  // Strides of [batch, blocks of channels, channels of a block, inner].
  const auto strides = [&](Layout layout) -> Dims {
    switch (layout) {
      case Layout::kPlain:
        return {channels * inner, block * inner, inner, 1};
      case Layout::kChannelsLast:
        return {channels * inner, block, 1, channels};
      default:
        return {blocks * block * inner, block * inner, 1, block};
    }
  };
  const Dims in = strides(from.layout), out = strides(to);
  const size_t size = size_of(from.type);
  const int64_t whole = channels / block, rest = channels - whole * block;
  const StridedCopy most(size, {batch, whole, block, inner}, in, out);
  if (rest == 0) return [most](const Args& args) { most(args.in<void>(0), args.out<void>(0)); };
  const StridedCopy others(size, {batch, rest, inner}, {in[0], in[2], in[3]}, {out[0], out[2], out[3]},
                           whole * in[1], whole * out[1]);
  // The last block is filled up with zeros.
  const size_t fill = to_block == 1 ? 0 : static_cast<size_t>(block - rest) * size;
  return [=](const Args& args) {
    most(args.in<void>(0), args.out<void>(0));
    others(args.in<void>(0), args.out<void>(0));
    if (fill == 0) return;
    char* last = args.out<char>(0) + (whole * out[1] + rest) * static_cast<int64_t>(size);
    for (int64_t n = 0; n < batch; ++n, last += out[0] * static_cast<int64_t>(size)) {
      for (int64_t i = 0; i < inner; ++i) {
        std::memset(last + i * block * static_cast<int64_t>(size), 0, fill);
      }
    }
  };
}

}  // namespace ephost::cpu
