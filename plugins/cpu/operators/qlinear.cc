// com.microsoft's operators on bytes that take more than one element at a time: QLinearConcat and
// QLinearSoftmax. Those on single elements are in quantize.cc, those on windows in pool.cc.
#include <cmath>
#include <cstring>

#include "cpu/engines/int8/int8.h"
#include "cpu/operator.h"

namespace ephost::cpu {
namespace {

// A byte of a type as a number.
int number_of(DType type, uint8_t byte) { return type == DType::kInt8 ? static_cast<int8_t>(byte) : byte; }

// Scale and zero point of y, then x, scale and zero point of each input. (Where passes run they make it a
// Concat of bytes.)
Kernel concat(Prepare& p) {
  const int parts = (p.inputs() - 2) / 3;
  p.expect(parts >= 1 && p.inputs() == 2 + 3 * parts, "there are not three inputs for each part");
  const DType type = p.type(1);
  Dims dims = p.dims(2);
  const size_t axis = p.axis(p.node.i("axis", 1), dims.size());
  dims[axis] = 0;
  std::vector<int64_t> lengths;  // Of a piece of each part.
  for (int i = 0; i < parts; ++i) {
    const Dims& part = p.dims(2 + 3 * i);
    p.expect(p.type(2 + 3 * i) == type && p.type(4 + 3 * i) == type && p.type(3 + 3 * i) == DType::kFloat,
             "a part, its zero point or its scale has another type than the output's");
    p.expect(p.in(3 + 3 * i).count() == 1 && p.in(4 + 3 * i).count() == 1, "a part has more than one scale");
    p.expect(part.size() == dims.size(), "the parts have different ranks");
    for (size_t d = 0; d < dims.size(); ++d) {
      p.expect(d == axis || part[d] == dims[d], "the parts do not fit each other");
    }
    dims[axis] += part[axis];
    lengths.push_back(count(part, axis, part.size()));
  }
  p.expect(p.type(0) == DType::kFloat, "the output's scale is no float");
  p.expect(p.in(0).count() == 1 && p.in(1).count() == 1, "the output has more than one scale");
  p.out(0, type, dims);
  const int64_t outer = count(dims, 0, axis), length = count(dims, axis, dims.size());
  return [=](const Args& args) {
    const Simd& simd = ephost::cpu::simd();
    int64_t at = 0;
    for (int i = 0; i < parts; ++i) {
      const float scale = *args.in<float>(3 + 3 * i);
      const int zero = zero_of(type, args.in<void>(4 + 3 * i));
      float values[256];
      for (int b = 0; b < 256; ++b) {
        values[b] = static_cast<float>(number_of(type, static_cast<uint8_t>(b)) - zero) * scale;
      }
      uint8_t table[256];
      simd.quantized.quantize(values, 256, *args.in<float>(0), zero_of(type, args.in<void>(1)), lowest(type),
                              highest(type), table);
      const uint8_t* x = args.in<uint8_t>(2 + 3 * i);
      uint8_t* y = args.out<uint8_t>(0) + at;
      const int64_t mine = lengths[static_cast<size_t>(i)];
      parallel_for(outer, std::max<int64_t>(1, 2 * kGrain / (mine + 1)), [&](int64_t o, int64_t end) {
        for (; o < end; ++o) simd.bytes.look_up(x + o * mine, mine, table, y + o * length);
      });
      at += mine;
    }
  };
}

// x, scale, zero, scale of y, zero of y. What is not known of exp(x - largest) is one of 256 numbers.
Kernel softmax(Prepare& p) {
  const DType type = p.type(0);
  const Dims& dims = p.dims(0);
  for (int i : {1, 2, 3, 4}) {
    p.expect(!p.has(i) || p.in(i).count() == 1, "a scale or zero point is not a single one");
  }
  const size_t axis = p.axis(p.node.i("axis", -1), dims.size());
  const bool flat = p.node.i("opset", 13) < 13;  // Everything from the axis on is one row.
  const int64_t n = flat ? count(dims, axis, dims.size()) : dims[axis];
  const int64_t inner = flat ? 1 : count(dims, axis + 1, dims.size()), outer = count(dims, 0, axis);
  p.out(0, type, dims);
  if (count(dims) == 0) return [](const Args&) {};
  // Rows side by side, whose elements lie `inner` apart; or one row.
  constexpr int64_t kSide = 64;
  const int64_t blocks = (inner + kSide - 1) / kSide;
  return [=](const Args& args) {
    const Simd& simd = ephost::cpu::simd();
    const float scale = *args.in<float>(1), to_scale = *args.in<float>(3);
    const int to = zero_of(type, args.in<void>(4));
    float powers[256];  // By how much less than the largest one an element is.
    for (int i = 0; i < 256; ++i) powers[i] = std::exp(static_cast<float>(-i) * scale);
    const auto quantize = [&](const float* from, int64_t count, uint8_t* y) {
      simd.quantized.quantize(from, count, to_scale, to, lowest(type), highest(type), y);
    };
    parallel_for(outer * blocks, std::max<int64_t>(1, kGrain / (8 * n * std::min(inner, kSide) + 1)),
                 [&](int64_t task, int64_t end) {
                   std::vector<const uint8_t*> rows(static_cast<size_t>(n));
                   for (; task < end; ++task) {
                     const int64_t first = task % blocks * kSide, wide = std::min(kSide, inner - first);
                     const int64_t at = task / blocks * n * inner + first;
                     const uint8_t* x = args.in<uint8_t>(0) + at;
                     uint8_t* y = args.out<uint8_t>(0) + at;
                     uint8_t most[kSide];
                     if (inner == 1) {
                       most[0] = x[0];
                       for (int64_t i = 1; i < n; ++i) {
                         if (number_of(type, x[i]) > number_of(type, most[0])) most[0] = x[i];
                       }
                     } else {
                       for (int64_t i = 0; i < n; ++i) rows[static_cast<size_t>(i)] = x + i * inner;
                       const auto largest =
                           type == DType::kInt8 ? simd.bytes.largest_signed : simd.bytes.largest_unsigned;
                       largest(rows.data(), n, wide, most);
                     }
                     float sums[kSide] = {}, parts[kSide];
                     // The difference of two bytes of one type is that of the bytes as they are, modulo 256.
                     if (inner == 1) {
                       float four[4] = {};  // So that additions do not wait for each other.
                       for (int64_t i = 0; i < n; ++i)
                         four[i % 4] += powers[static_cast<uint8_t>(most[0] - x[i])];
                       sums[0] = (four[0] + four[1]) + (four[2] + four[3]);
                       for (int64_t i = 0; i < n; i += kSide) {
                         const int64_t some = std::min(kSide, n - i);
                         for (int64_t k = 0; k < some; ++k) {
                           parts[k] = powers[static_cast<uint8_t>(most[0] - x[i + k])] / sums[0];
                         }
                         quantize(parts, some, y + i);
                       }
                       continue;
                     }
                     for (int64_t i = 0; i < n; ++i) {
                       for (int64_t k = 0; k < wide; ++k) {
                         sums[k] += powers[static_cast<uint8_t>(most[k] - x[i * inner + k])];
                       }
                     }
                     for (int64_t i = 0; i < n; ++i) {
                       for (int64_t k = 0; k < wide; ++k) {
                         parts[k] = powers[static_cast<uint8_t>(most[k] - x[i * inner + k])] / sums[k];
                       }
                       quantize(parts, wide, y + i * inner);
                     }
                   }
                 });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  const auto add = [&](const char* type, std::function<Kernel(Prepare&)> prepare) {
    registry->add({.domain = "com.microsoft",
                   .type = type,
                   .prepare = std::move(prepare),
                   .types = kBytes | Types{DType::kFloat}});
  };
  add("QLinearConcat", concat);
  add("QLinearSoftmax", softmax);
});

}  // namespace ephost::cpu
