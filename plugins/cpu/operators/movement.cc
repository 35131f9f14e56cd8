// Operators that put elements elsewhere without looking at them.
#include <cstring>
#include <limits>
#include <numeric>

#include "cpu/engines/strided.h"
#include "cpu/operator.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

// ---- Transpose and what is one

StridedCopy permuted(size_t size, const Dims& dims, const std::vector<size_t>& perm) {
  const Dims strides = strides_of(dims);
  Dims to, from_strides;
  for (size_t axis : perm) {
    to.push_back(dims[axis]);
    from_strides.push_back(strides[axis]);
  }
  return {size, to, from_strides, strides_of(to)};
}

// Strides by ONNX's axes of a tensor that lies plainly or with its channels last.
Dims strides_by_axis(const Desc& desc) {
  Dims strides = strides_of(stored_dims(desc));
  if (desc.layout == Layout::kChannelsLast)
    std::rotate(strides.begin() + 1, strides.end() - 1, strides.end());
  return strides;
}

Kernel transpose(Prepare& p) {
  const Desc in =
      p.require(0, p.in(0).layout == Layout::kChannelsLast ? Layout::kChannelsLast : Layout::kPlain);
  const Dims& dims = in.dims;
  Ints asked(dims.size());
  std::iota(asked.rbegin(), asked.rend(), 0);
  asked = p.node.ints("perm", asked);
  p.expect(asked.size() == dims.size(), "perm does not have an entry for each dimension");
  std::vector<bool> seen(dims.size());
  const Dims strides = strides_by_axis(in);
  Dims to, from_strides;
  for (int64_t entry : asked) {
    const size_t axis = p.axis(entry, dims.size());
    p.expect(!seen[axis], "perm names a dimension twice");
    seen[axis] = true;
    to.push_back(dims[axis]);
    from_strides.push_back(strides[axis]);
  }
  const size_t size = size_of(in.type);
  const StridedCopy copy(size, to, from_strides, strides_of(to));
  if (to.size() >= 3 && !copy.is_run()) {
    // Images from channels last to channels first are the same memory in the other layout.
    const Desc last{in.type, to, Layout::kChannelsLast};
    const StridedCopy same(size, to, from_strides, strides_by_axis(last));
    if (same.is_run()) {
      p.out(0, in.type, to, Layout::kChannelsLast);
      return copy_or_alias(p, same);
    }
  }
  p.out(0, in.type, to);
  return copy_or_alias(p, copy);
}

// Channel i of group j goes to place i * groups + j: what Reshape, Transpose and Reshape do in one.
Kernel channel_shuffle(Prepare& p) {
  const Desc in =
      p.require(0, p.in(0).layout == Layout::kChannelsLast ? Layout::kChannelsLast : Layout::kPlain);
  const int64_t groups = p.node.i("groups", 1), channels = in.dims[1] / groups;
  const Dims dims = {in.dims[0], channels, groups, count(in.dims, 2, in.dims.size())};
  const bool last = in.layout == Layout::kChannelsLast;
  const int64_t channel = last ? 1 : dims[3], pixel = last ? in.dims[1] : 1, image = in.dims[1] * dims[3];
  p.out(0, in.type, in.dims, in.layout);
  return copy_or_alias(p, {size_of(in.type),
                           dims,
                           {image, channel, channels * channel, pixel},
                           {image, groups * channel, channel, pixel}});
}

// The blocksize of a node whose input has images. Where those have no elements it may be as large as an
// integer.
int64_t block_size(Prepare& p) {
  const Dims& dims = p.dims(0);
  const int64_t block = p.node.i("blocksize", 0);
  p.expect(dims.size() == 4 && block > 0, "the input must have 4 dimensions, and blocksize be positive");
  int64_t made;
  bool is_large = __builtin_mul_overflow(block, block, &made) || __builtin_mul_overflow(made, dims[1], &made);
  for (const int64_t places : {dims[2], dims[3]}) {
    is_large = is_large || __builtin_mul_overflow(block, places, &made);
  }
  p.expect(!is_large, "blocksize is too large");
  return block;
}

Kernel depth_to_space(Prepare& p) {
  const Dims& dims = p.dims(0);
  const int64_t block = block_size(p);
  p.expect(dims[1] % (block * block) == 0, "the channels are not a multiple of blocksize squared");
  const int64_t n = dims[0], c = dims[1] / (block * block), h = dims[2], w = dims[3];
  p.out(0, p.type(0), {n, c, h * block, w * block});
  const std::string mode = p.node.s("mode", "DCR");
  p.expect(mode == "DCR" || mode == "CRD", "mode is neither DCR nor CRD");
  const size_t size = size_of(p.type(0));
  return copy_or_alias(p, mode == "DCR" ? permuted(size, {n, block, block, c, h, w}, {0, 3, 4, 1, 5, 2})
                                        : permuted(size, {n, c, block, block, h, w}, {0, 1, 4, 2, 5, 3}));
}

Kernel space_to_depth(Prepare& p) {
  const Dims& dims = p.dims(0);
  const int64_t block = block_size(p);
  p.expect(dims[2] % block == 0 && dims[3] % block == 0, "height and width are not multiples of blocksize");
  const int64_t n = dims[0], c = dims[1], h = dims[2] / block, w = dims[3] / block;
  p.out(0, p.type(0), {n, c * block * block, h, w});
  const std::string mode = p.node.s("mode", "DCR");
  p.expect(mode == "DCR" || mode == "CRD", "mode is neither DCR nor CRD");
  const std::vector<size_t> perm =
      mode == "DCR" ? std::vector<size_t>{0, 3, 5, 1, 2, 4} : std::vector<size_t>{0, 1, 3, 5, 2, 4};
  return copy_or_alias(p, permuted(size_of(p.type(0)), {n, c, h, block, w, block}, perm));
}

// ---- Concat and Split

// Whether parts of these sizes along `axis` can be cut out of, or put into, a tensor that keeps this layout.
bool cuts_well(Layout layout, size_t axis, const Ints& sizes) {
  return axis != 1 || std::all_of(sizes.begin(), sizes.end() - (sizes.empty() ? 0 : 1),
                                  [&](int64_t size) { return size % block_of(layout) == 0; });
}

Kernel concat(Prepare& p) {
  std::vector<int> parts;
  Ints sizes;
  // What has no elements may have any shape, and counts along the axis all the same: onnxruntime leaves that
  // part of the output, the last, as it is; here it is 0.
  int fullest = 0;
  while (fullest < p.inputs() && p.in(fullest).count() == 0) ++fullest;
  const Desc first = p.in(fullest < p.inputs() ? fullest : 0);
  bool misfits = false;
  const size_t axis = p.axis(p.node.version < 4 ? p.node.i("axis", 1) : p.node.i("axis", 0), first.rank());
  Dims to = first.dims;
  to[axis] = 0;
  Layout layout = Layout::kPlain;
  for (int i = 0; i < p.inputs(); ++i) {
    const Desc& in = p.in(i);
    bool fits = in.rank() == to.size();
    for (size_t d = 0; fits && d < to.size(); ++d) {
      fits = d == axis || in.dims[d] == to[d];
    }
    misfits = misfits || !fits;
    if (in.type != first.type || !(fits || in.count() == 0)) {
      p.invalid("cannot join shapes " + to_string(first.dims) + " and " + to_string(in.dims) +
                " along axis " + std::to_string(axis));
    }
    sizes.push_back(axis < in.rank() ? in.dims[axis] : 0);
    to[axis] += sizes.back();
    parts.push_back(i);
    // Convolutions like their channels last, most of them: one input in blocks must not turn all the others.
    layout = layout == Layout::kPlain || in.layout == Layout::kChannelsLast ? in.layout : layout;
  }
  if (layout != Layout::kPlain && (misfits || !cuts_well(layout, axis, sizes))) {
    layout = Layout::kPlain;
  }
  for (int i : parts) {
    p.require(i, layout);
  }
  const Desc out = p.out(0, first.type, to, layout);
  // What has no elements is not copied; what is the only one left need not be.
  parts.erase(std::remove_if(parts.begin(), parts.end(), [&](int i) { return p.in(i).count() == 0; }),
              parts.end());
  int64_t joined = 0;
  for (int i : parts) joined += p.in(i).count();
  const int64_t left = out.count() - joined;
  p.expect(left == 0 || first.type != DType::kString, "an input without elements has a shape of its own");
  if (parts.size() <= 1 && left == 0) {
    p.alias(0, parts.empty() ? 0 : parts[0]);
    return nullptr;
  }
  const size_t at = stored_axis(out, axis);
  const Dims whole = stored_dims(out);
  // Rows of the output have a piece of each part. All of a row's are put there at once, if they are no
  // crumbs: what is written is one run of memory then.
  struct Piece {
    int part;
    size_t bytes;
  };
  const int64_t rows = count(whole, 0, at), size = static_cast<int64_t>(size_of(first.type));
  std::vector<Piece> pieces;
  int64_t row = 0, least = std::numeric_limits<int64_t>::max();
  for (int i : parts) {
    const Dims dims = stored_dims(p.in(i));
    const int64_t bytes = count(dims, at, dims.size()) * size;
    pieces.push_back({i, static_cast<size_t>(bytes)});
    row += bytes;
    least = std::min(least, bytes);
  }
  constexpr int64_t kCrumb = 64, kManyRows = 16;
  if (rows >= kManyRows && least >= kCrumb && left == 0) {
    return [=, pieces = std::move(pieces)](const Args& args) {
      parallel_for(rows, std::max<int64_t>(1, 4 * kGrain / row), [&](int64_t r, int64_t end) {
        for (char* to = args.out<char>() + r * row; r < end; ++r) {
          for (const Piece& piece : pieces) {
            std::memcpy(to, args.in<char>(piece.part) + static_cast<size_t>(r) * piece.bytes, piece.bytes);
            to += piece.bytes;
          }
        }
      });
    };
  }
  const Dims out_strides = strides_of(whole);
  std::vector<std::pair<int, StridedCopy>> copies;
  int64_t begin = 0;
  for (int i : parts) {
    const Dims dims = stored_dims(p.in(i));
    copies.emplace_back(
        i, StridedCopy(size_of(first.type), dims, strides_of(dims), out_strides, 0, begin * out_strides[at]));
    begin += dims[at];
  }
  const size_t cleared = left == 0 ? 0 : static_cast<size_t>(out.count()) * size_of(first.type);
  return [cleared, copies = std::move(copies)](const Args& args) {
    if (cleared != 0) std::memset(args.out(), 0, cleared);
    for (const auto& [i, copy] : copies) copy(args.in(i), args.out());
  };
}

Kernel split(Prepare& p) {
  const Desc from = p.in(0);
  const size_t axis = p.axis(p.node.i("axis", 0), from.rank());
  Ints sizes;
  if (p.node.version < 13) {
    sizes = p.node.ints("split");
  } else if (p.has(1)) {
    sizes = p.ints(1);
  }
  const int64_t total = from.dims[axis], parts = p.outputs();
  if (sizes.empty()) {
    // Equal parts, the last one smaller where it must be (from opset 18 on).
    p.expect(p.node.version >= 18 || total % parts == 0, "the axis does not split into equal parts");
    const int64_t each = (total + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) {
      sizes.push_back(std::clamp<int64_t>(total - i * each, 0, each));
    }
  }
  p.expect(static_cast<int64_t>(sizes.size()) == parts, "the sizes of parts are not as many as the outputs");
  // Each for itself first: what does not fit may not be added.
  p.expect(
      std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size >= 0 && size <= total; }) &&
          std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) == total,
      "the sizes of parts do not add up to the axis");
  const Layout layout = cuts_well(from.layout, axis, sizes) ? from.layout : Layout::kPlain;
  const Desc in = p.require(0, layout);
  const Dims in_strides = strides_of(stored_dims(in));
  const size_t at = stored_axis(in, axis);
  std::vector<std::pair<int, StridedCopy>> copies;
  int64_t begin = 0;
  for (int o = 0; o < parts; ++o) {
    Desc part = in;
    part.dims[axis] = sizes[static_cast<size_t>(o)];
    const Dims dims = stored_dims(part);
    const StridedCopy copy(size_of(in.type), dims, in_strides, strides_of(dims), begin * in_strides[at]);
    begin += dims[at];
    if (!p.wants(o)) {
      continue;
    }
    p.out(o, part.type, part.dims, layout);
    if (copy.is_run()) {
      p.alias(o, 0, copy.in_offset());
    } else {
      copies.emplace_back(o, copy);
    }
  }
  if (copies.empty()) {
    return nullptr;
  }
  return [copies = std::move(copies)](const Args& args) {
    for (const auto& [o, copy] : copies) copy(args.in(0), args.out(o));
  };
}

// ---- Slice

// Where a slice begins, and how it goes on.
struct Cut {
  Dims to, strides;
  int64_t offset = 0;
};

// `of` is a Prepare or a Run: both know shapes, and the content of inputs.
// `own`: how far the input's elements lie apart along each axis.
template <typename Of>
Cut cut_of(const Of& of, Dims own) {
  const Node& node = of.node;
  const bool inputs = node.version >= 10;
  const Dims& from = of.in(0).dims;
  const Ints starts = inputs ? of.ints(1) : node.ints("starts");
  const Ints ends = inputs ? of.ints(2) : node.ints("ends");
  Ints axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (inputs && of.has(3)) {
    axes = of.ints(3);
  } else if (!inputs) {
    axes = node.ints("axes", axes);
  }
  if (inputs && of.has(4)) {
    steps = of.ints(4);
  }
  for (int i = 1; inputs && i <= 4; ++i) {
    if (of.has(i) && of.in(i).rank() != 1) of.invalid("starts, ends, axes and steps are lists");
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    of.invalid("starts, ends, axes and steps are not equally many");
  }
  Cut cut;
  cut.to = from;
  cut.strides = std::move(own);
  std::vector<bool> seen(from.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t rank = static_cast<int64_t>(from.size());
    const size_t axis = static_cast<size_t>(axes[i] < 0 ? axes[i] + rank : axes[i]);
    if (axis >= from.size() || seen[axis]) {
      of.invalid("the axes " + to_string(axes) + " of a tensor of shape " + to_string(from));
    }
    seen[axis] = true;
    const int64_t n = from[axis], step = steps[i];
    if (step == 0) {
      of.invalid("a step is 0");
    }
    int64_t start = starts[i], end = ends[i];
    // Far below 0 stays there: adding cannot overflow.
    start += start < 0 ? n : 0;
    end += end < 0 ? n : 0;
    int64_t& length = cut.to[axis];
    if (step > 0) {
      start = std::clamp<int64_t>(start, 0, n);
      end = std::clamp<int64_t>(end, 0, n);
      length = start < end ? (end - start - 1) / step + 1 : 0;
    } else {
      start = std::clamp<int64_t>(start, n == 0 ? -1 : 0, n - 1);
      end = std::clamp<int64_t>(end, -1, n - 1);
      const uint64_t back = uint64_t{0} - static_cast<uint64_t>(step);  // The lowest number has no negative.
      length = start > end ? static_cast<int64_t>(static_cast<uint64_t>(start - end - 1) / back) + 1 : 0;
    }
    cut.offset += std::max<int64_t>(start, 0) * cut.strides[axis];
    // A step beyond the tensor is never taken.
    cut.strides[axis] *= length > 1 ? step : 1;
  }
  return cut;
}

// Channels stay last, if they are: what is cut is mostly put together again.
Kernel slice(Prepare& p) {
  const Layout layout = p.in(0).layout == Layout::kPlain ? Layout::kPlain : Layout::kChannelsLast;
  const Desc in = p.require(0, layout);
  if (layout == Layout::kPlain) {
    const Cut cut = cut_of(p, strides_of(in.dims));
    p.out(0, in.type, cut.to);
    return copy_or_alias(p, {size_of(in.type), cut.to, cut.strides, strides_of(cut.to), cut.offset});
  }
  const auto channels_first = [](Dims dims) {
    std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
    return dims;
  };
  const auto channels_last = [](Dims dims) {
    std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
    return dims;
  };
  const Cut cut = cut_of(p, channels_first(strides_of(stored_dims(in))));
  p.out(0, in.type, cut.to, layout);
  const Dims to = channels_last(cut.to);
  return copy_or_alias(p, {size_of(in.type), to, channels_last(cut.strides), strides_of(to), cut.offset});
}

// At a place that only the run knows.
void run_slice(Run& run) {
  const Cut cut = cut_of(run, strides_of(run.in(0).dims));
  const DType type = run.in(0).type;
  void* to = run.out(0, type, cut.to);
  StridedCopy(size_of(type), cut.to, cut.strides, strides_of(cut.to), cut.offset)(run.data(0), to);
}

// ---- Expand and Tile

Kernel expand(Prepare& p) {
  const Dims& from = p.dims(0);
  const Ints asked = p.ints(1);
  const size_t rank = std::max(from.size(), asked.size());
  Dims to(rank), strides(rank);
  const Dims own = strides_of(from);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t a = i + from.size() >= rank ? from[i + from.size() - rank] : 1;
    const int64_t b = i + asked.size() >= rank ? asked[i + asked.size() - rank] : 1;
    if (a != b && a != 1 && b != 1) {
      p.invalid("cannot expand " + to_string(from) + " to " + to_string(asked));
    }
    to[i] = a == 1 ? b : a;
    strides[i] = a == 1 ? 0 : own[i + from.size() - rank];
  }
  p.out(0, p.type(0), to);
  return copy_or_alias(p, {size_of(p.type(0)), to, strides, strides_of(to)});
}

Kernel tile(Prepare& p) {
  const Dims& from = p.dims(0);
  Ints repeats;
  if (p.node.version >= 6) {
    p.expect(p.dims(1).size() == 1, "repeats is not a list");
    repeats = p.ints(1);
  } else {
    repeats.assign(from.size(), 1);
    repeats.at(p.axis(p.integer(2), from.size())) = p.integer(1);
  }
  p.expect(repeats.size() == from.size(), "repeats does not have an entry for each dimension");
  Dims to, split, strides;
  const Dims own = strides_of(from);
  for (size_t i = 0; i < from.size(); ++i) {
    p.expect(repeats[i] >= 0, "repeats has a negative entry");
    p.expect(!__builtin_mul_overflow(from[i], repeats[i], &to.emplace_back()),
             "repeats asks for more elements than memory");
    split.push_back(repeats[i]);
    split.push_back(from[i]);
    strides.push_back(0);
    strides.push_back(own[i]);
  }
  p.out(0, p.type(0), to);
  return copy_or_alias(p, {size_of(p.type(0)), split, strides, strides_of(split)});
}

// ---- Pad

// The element of an axis with n elements that stands at position i outside of it.
int64_t source_of(const std::string& mode, int64_t i, int64_t n) {
  if (mode == "edge") {
    return std::clamp<int64_t>(i, 0, n - 1);
  }
  if (mode == "wrap") {
    return (i % n + n) % n;
  }
  const int64_t period = std::max<int64_t>(1, 2 * (n - 1));  // reflect
  const int64_t k = (i % period + period) % period;
  return k < n ? k : period - k;
}

// A copy of what `begin` and `end` elements more (or fewer, below 0) on each axis make of a tensor. First
// comes what is kept of the input; then axis by axis what is around it, across all that is filled by then.
struct Padding {
  std::vector<StridedCopy> from_value;  // Reads the one element of the value.
  StridedCopy from_input;
  std::vector<StridedCopy> from_output;  // Reads what the others have written.
  Dims to;
};

// Of pads that copy from the tensor, each a copy of its own.
constexpr int64_t kMostStrips = int64_t{1} << 24;

Padding padding_of(Prepare& p, size_t size, const Dims& from, const Dims& begin, const Dims& end,
                   const std::string& mode) {
  Padding all;
  Dims kept(from.size()), place(from.size());  // What is left of the input, and where it goes.
  int64_t in_offset = 0, out_offset = 0;
  const Dims in_strides = strides_of(from);
  constexpr int64_t kMost = int64_t{1} << 40;  // More than memory holds, and sums of some do not overflow.
  for (size_t i = 0; i < from.size(); ++i) {
    p.expect(-kMost < begin[i] && begin[i] < kMost && -kMost < end[i] && end[i] < kMost,
             "pads are larger than any memory");
    all.to.push_back(std::max<int64_t>(0, from[i] + begin[i] + end[i]));
    kept[i] = std::max<int64_t>(0, from[i] + std::min<int64_t>(begin[i], 0) + std::min<int64_t>(end[i], 0));
    place[i] = std::max<int64_t>(begin[i], 0);
    p.expect(kept[i] > 0 || mode == "constant" || all.to[i] == 0,
             "an axis without elements can be padded with a constant only");
    in_offset += std::max<int64_t>(-begin[i], 0) * in_strides[i];
  }
  if (count(all.to) == 0) return all;
  int64_t strips = 0;
  for (size_t i = 0; i < from.size(); ++i) strips += all.to[i] - kept[i];
  p.expect(mode == "constant" || strips < kMostStrips, "pads of this mode are larger than any tensor's");
  const Dims strides = strides_of(all.to), zeros(from.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) {
    out_offset += place[i] * strides[i];
  }
  all.from_input = {size, kept, in_strides, strides, in_offset, out_offset};
  Dims filled = kept;
  int64_t corner = out_offset;  // Of what is filled.
  for (size_t i = from.size(); i-- > 0;) {
    const int64_t before = place[i], after = all.to[i] - before - kept[i];
    corner -= before * strides[i];
    if (mode == "constant") {
      Dims slab = filled;
      slab[i] = before;
      all.from_value.emplace_back(size, slab, zeros, strides, 0, corner);
      slab[i] = after;
      all.from_value.emplace_back(size, slab, zeros, strides, 0, corner + (before + kept[i]) * strides[i]);
    } else {
      for (int64_t k = 0; k < all.to[i]; ++k) {
        if (k >= before && k < before + kept[i]) continue;
        const int64_t source = before + source_of(mode, k - before, kept[i]);
        Dims slab = filled;
        slab[i] = 1;
        all.from_output.emplace_back(size, slab, strides, strides, corner + source * strides[i],
                                     corner + k * strides[i]);
      }
    }
    filled[i] = all.to[i];
  }
  return all;
}

Kernel padded(Padding padding, int value) {
  static const uint64_t zero[2] = {};
  return [padding = std::move(padding), value](const Args& args) {
    padding.from_input(args.in(0), args.out());
    for (const StridedCopy& copy : padding.from_value) {
      copy(value < 0 ? zero : args.in(value), args.out());
    }
    for (const StridedCopy& copy : padding.from_output) {
      copy(args.out(), args.out());
    }
  };
}

Kernel pad(Prepare& p) {
  const Dims& from = p.dims(0);
  const bool inputs = p.node.version >= 11 || p.node.domain == "com.microsoft";
  const Ints pads = inputs ? p.ints(1) : p.node.ints(p.node.version < 2 ? "paddings" : "pads");
  const std::string mode = p.node.s("mode", "constant");
  p.expect(mode == "constant" || mode == "reflect" || mode == "edge" || mode == "wrap", "mode is not known");
  Ints axes(from.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (p.has(3)) {
    axes = p.ints(3);
  }
  p.expect(pads.size() == 2 * axes.size(), "pads does not have two entries for each axis");
  Dims begin(from.size(), 0), end(from.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = p.axis(axes[i], from.size());
    begin[axis] = pads[i];
    end[axis] = pads[i + axes.size()];
    p.expect(begin[axis] >= -from[axis] && end[axis] >= -from[axis] - std::min<int64_t>(begin[axis], 0),
             "pads take more away than an axis has");
  }
  const size_t size = size_of(p.type(0));
  Padding padding = padding_of(p, size, from, begin, end, mode);
  p.out(0, p.type(0), padding.to);
  // Not by the shape: what is taken away at one end may be put to the other.
  if (std::all_of(pads.begin(), pads.end(), [](int64_t size) { return size == 0; })) {
    p.alias(0, 0);
    return nullptr;
  }
  if (!inputs && p.node.f("value", 0) != 0 && mode == "constant") {
    p.expect(p.type(0) == DType::kFloat, "a value other than 0 needs an input of float32");
    const float value = p.node.f("value", 0);
    return [padding = std::move(padding), value](const Args& args) {
      padding.from_input(args.in(0), args.out());
      for (const StridedCopy& copy : padding.from_value) copy(&value, args.out());
    };
  }
  const bool has_value = inputs && p.has(2);
  p.expect(!has_value || p.type(2) == p.type(0), "the value has another type than the input");
  p.expect(!has_value || p.in(2).count() == 1, "the value is not one element");
  return padded(std::move(padding), has_value ? 2 : -1);
}

Kernel center_crop_pad(Prepare& p) {
  const Dims& from = p.dims(0);
  const Ints asked = p.ints(1);
  Ints axes(from.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = p.node.ints("axes", axes);
  p.expect(asked.size() == axes.size(), "the shape does not have an entry for each axis");
  Dims begin(from.size(), 0), end(from.size(), 0);
  std::vector<bool> named(from.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = p.axis(axes[i], from.size());
    p.expect(!named[axis], "an axis is named twice");
    named[axis] = true;
    p.expect(asked[i] >= 0, "the shape has a negative entry");
    const int64_t more = asked[i] - from[axis];
    // The half that is larger when it is odd lies at the end when padding, and when cropping.
    begin[axis] = more >= 0 ? more / 2 : -((-more) / 2);
    end[axis] = more - begin[axis];
  }
  Padding padding = padding_of(p, size_of(p.type(0)), from, begin, end, "constant");
  p.out(0, p.type(0), padding.to);
  return padded(std::move(padding), -1);
}

// ---- ReverseSequence, Trilu

Kernel reverse_sequence(Prepare& p) {
  const Dims& dims = p.dims(0);
  const size_t batch_axis = p.axis(p.node.i("batch_axis", 1), dims.size());
  const size_t time_axis = p.axis(p.node.i("time_axis", 0), dims.size());
  p.expect(batch_axis + time_axis == 1, "batch_axis and time_axis are not the first two");
  p.expect(p.dims(1) == Dims{dims[batch_axis]}, "the lengths are not one for each sequence");
  p.out(0, p.type(0), dims);
  const int64_t batch = dims[batch_axis], time = dims[time_axis];
  const int64_t bytes = count(dims, 2, dims.size()) * static_cast<int64_t>(size_of(p.type(0)));
  const int64_t batch_step = bytes * (batch_axis == 0 ? time : 1),
                time_step = bytes * (time_axis == 0 ? batch : 1);
  return [=, label = p.node.label()](const Args& args) {
    const int64_t* lengths = args.in<int64_t>(1);
    for (int64_t b = 0; b < batch; ++b) {
      if (lengths[b] < 0 || lengths[b] > time) invalid(label + ": a length is beyond the time axis");
    }
    parallel_for(batch, 1 + kGrain / (time * bytes + 1), [&](int64_t b, int64_t end) {
      for (; b < end; ++b) {
        for (int64_t t = 0; t < time; ++t) {
          const int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t;
          std::memcpy(args.out<char>() + b * batch_step + t * time_step,
                      args.in<char>(0) + b * batch_step + from * time_step, static_cast<size_t>(bytes));
        }
      }
    });
  };
}

Kernel trilu(Prepare& p) {
  const Dims& dims = p.dims(0);
  p.expect(dims.size() >= 2, "the input is not a matrix");
  const bool upper = p.node.i("upper", 1) != 0, has_k = p.has(1);
  p.expect(!has_k || p.type(1) == DType::kInt64, "the diagonal is no int64");
  p.expect(!has_k || (p.dims(1).size() <= 1 && p.in(1).count() == 1), "the diagonal is not one number");
  p.out(0, p.type(0), dims);
  p.in_place(0, 0);
  const int64_t rows = dims[dims.size() - 2], columns = dims.back(), all = count(dims, 0, dims.size() - 1);
  const size_t size = size_of(p.type(0));
  return [=](const Args& args) {
    const int64_t k = has_k ? *args.in<int64_t>(1) : 0;
    parallel_for(all, 1 + kGrain / (columns + 1), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const char* in = args.in<char>(0) + static_cast<size_t>(i * columns) * size;
        char* out = args.out<char>() + static_cast<size_t>(i * columns) * size;
        // The first column on or above diagonal k.
        const int64_t row = i % rows;
        const int64_t first = k > columns ? columns
                              : k < -rows ? 0
                                          : std::clamp<int64_t>(row + k, 0, columns);
        // Below keeps the diagonal as well.
        const int64_t past = k > columns ? columns
                             : k < -rows ? 0
                                         : std::clamp<int64_t>(row + k + 1, 0, columns);
        const size_t begin = static_cast<size_t>(upper ? first : 0) * size,
                     stop = static_cast<size_t>(upper ? columns : past) * size,
                     line = static_cast<size_t>(columns) * size;
        std::memset(out, 0, begin);
        if (in != out) std::memcpy(out + begin, in + begin, stop - begin);
        std::memset(out + stop, 0, line - stop);
      }
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "Transpose", .prepare = transpose, .types = kAny | kText, .any_layout = true});
  registry->add(
      {.domain = "ephost", .type = "ChannelShuffle", .prepare = channel_shuffle, .any_layout = true});
  registry->add({.type = "DepthToSpace", .prepare = depth_to_space, .types = kAny | kText});
  registry->add({.type = "SpaceToDepth", .prepare = space_to_depth, .types = kAny | kText});
  registry->add({.type = "Concat", .prepare = concat, .types = kAny | kText, .any_layout = true});
  registry->add({.type = "Split", .prepare = split, .types = kAny | kText, .any_layout = true});
  registry->add(
      {.type = "Slice", .prepare = slice, .run = run_slice, .types = kAny | kText, .any_layout = true});
  registry->add({.type = "Expand", .prepare = expand, .types = kAny | kText});
  registry->add({.type = "Tile", .prepare = tile, .types = kAny | kText});
  // com.microsoft had these before the standard did; old exporters write them.
  for (const char* domain : {"", "com.microsoft"}) {
    registry->add({.domain = domain, .type = "Pad", .prepare = pad, .types = kAny | kText});
    registry->add({.domain = domain, .type = "Trilu", .prepare = trilu});
  }
  registry->add({.type = "CenterCropPad", .prepare = center_crop_pad, .types = kAny | kText});
  registry->add({.type = "ReverseSequence", .prepare = reverse_sequence, .types = kAny | kText});
});

}  // namespace ephost::cpu
