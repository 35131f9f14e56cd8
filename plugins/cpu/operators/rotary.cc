// RotaryEmbedding: ONNX's and com.microsoft's, whose inputs come in another order, and com.microsoft's
// MRotaryEmbedding, whose tokens have places in time, height and width.
#include "cpu/engines/rotary.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cpu/engines/as_float.h"
#include "cpu/engines/attention_core.h"
#include "cpu/operator.h"
#include "cpu/runtime/threads.h"

namespace ephost::cpu {
namespace {

// Tokens whose heads have 2 * half channels, or more, that are turned.
struct Tokens {
  HeadsView x;
  int64_t heads, batch, rows, count, channels, half;

  Tokens(const Prepare& p, int64_t pairs) : half(pairs) {
    const bool onnx = p.node.domain.empty();
    const Dims dims = p.dims(0);
    p.expect(dims.size() == 3 || dims.size() == 4, "the input has three or four dimensions");
    heads = p.node.i("num_heads", 0);
    if (dims.size() == 4) {
      heads = dims[1];
    } else if (heads == 0) {
      p.expect(!onnx && half > 0, "the number of heads is not given");
      heads = dims[2] / (2 * half);
    }
    p.expect(heads > 0 && (dims.size() == 4 || dims[2] % heads == 0), "channels that the heads cannot share");
    x = heads_view(dims, heads);
    batch = x.sizes[0];
    rows = x.sizes[2];
    count = batch * rows;
    channels = x.sizes[3];
    const int64_t turned = p.node.i("rotary_embedding_dim", 0);
    p.expect(2 * half <= channels && (turned == 0 ? 2 * half == channels || !onnx : turned == 2 * half),
             "cosines that do not fit the channels");
  }
  // All heads of the i-th.
  void turn(int64_t i, const float* from, float* to, const float* cosines, const float* sines,
            bool interleaved) const {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = x.head(i / rows, h) + i % rows * x.strides[2];
      rotate(from + at, to + at, channels, half, cosines, sines, interleaved);
    }
  }
  int64_t grain() const { return std::max<int64_t>(1, kGrain / (heads * channels + 1)); }
};

std::string asks_for_more(const Node& node) {
  if (node.i("is_packed_batching", 0) != 0) return "packed batches";
  if (node.f("scale", 1) != 1) return "a scale of positions";
  return "";
}

std::string supports(const Node& node) {
  if (node.domain.empty()) return one_float_type(node, {0, 1, 2});
  const std::string why_not = asks_for_more(node);
  return why_not.empty() ? one_float_type(node, {0, 2, 3}) : why_not;
}

Kernel rotary_embedding(Prepare& p) {
  const bool onnx = p.node.domain.empty();
  const int cosines = onnx ? 1 : 2, sines = onnx ? 2 : 3, positions = onnx ? 3 : 1;
  const Dims dims = p.dims(0), table = p.dims(cosines);
  p.expect(p.dims(sines) == table && table.size() >= 2, "cosines and sines that do not fit each other");
  const int64_t half = table.back();
  const Tokens tokens(p, half);
  const bool placed = p.has(positions);
  int64_t places_given = 0;
  if (placed) {
    const Dims given = p.dims(positions);
    places_given = count(given);
    p.expect(
        p.type(positions) == DType::kInt64 && table.size() == 2 &&
            (given == Dims({tokens.batch, tokens.rows}) || (!onnx && given.size() < 2 && places_given == 1)),
        "positions are one int64 for each token: [batch, sequence]");
  } else {
    p.expect(table.size() == 3 && table[0] == tokens.batch && table[1] == tokens.rows,
             "cosines that do not fit the input");
  }
  const bool interleaved = p.node.i("interleaved", 0) == 1,
             first_only = places_given == 1 && tokens.count != 1;
  const int64_t angles = placed ? table[0] : tokens.count;
  const std::string label = p.node.label();
  p.out(0, p.type(0), dims);
  p.in_place(0, 0);
  return [=](const Args& args) {
    const int64_t* places = placed ? args.in<int64_t>(positions) : nullptr;
    const auto angle = [=](int64_t i) {
      return places == nullptr ? i : first_only ? places[0] + i % tokens.rows : places[i];
    };
    for (int64_t i = 0; i < tokens.count; ++i) {
      const int64_t given = places == nullptr ? 0 : places[first_only ? 0 : i];
      if (given < 0 || given >= angles || angle(i) >= angles) {
        invalid(label + ": a position without an angle");
      }
    }
    parallel_for(tokens.count, tokens.grain(), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        tokens.turn(i, args.in<float>(0), args.out<float>(0), args.in<float>(cosines) + angle(i) * half,
                    args.in<float>(sines) + angle(i) * half, interleaved);
      }
    });
  };
}

// ---- MRotaryEmbedding

enum Streams { kTime, kHeight, kWidth, kStreams };

std::string supports_streams(const Node& node) {
  if (const std::string why_not = asks_for_more(node); !why_not.empty()) return why_not;
  const Ints sections = node.ints("mrope_section", {});
  const auto bad = [](int64_t n) { return n < 0 || n > INT32_MAX; };
  if (sections.size() != kStreams || std::any_of(sections.begin(), sections.end(), bad))
    return "mrope_section is not three numbers of at least 0";
  if (const int64_t layout = node.i("mrope_layout", 0); layout != 0 && layout != 1)
    return "mrope_layout is neither 0 nor 1";
  return one_float_type(node, {0, 2, 3});
}

// For each pair of channels the stream of positions that turns it.
std::vector<uint8_t> streams_of(const Ints& sections, bool take_turns) {
  std::vector<uint8_t> made(static_cast<size_t>(sections[kTime] + sections[kHeight] + sections[kWidth]),
                            kTime);
  if (take_turns) {
    for (size_t stream : {kHeight, kWidth}) {
      const size_t end = std::min(made.size(), static_cast<size_t>(sections[stream]) * kStreams);
      for (size_t i = stream; i < end; i += kStreams) made[i] = static_cast<uint8_t>(stream);
    }
  } else {
    const auto height = made.begin() + sections[kTime], width = height + sections[kHeight];
    std::fill(height, width, static_cast<uint8_t>(kHeight));
    std::fill(width, made.end(), static_cast<uint8_t>(kWidth));
  }
  return made;
}

Kernel streams_embedding(Prepare& p) {
  constexpr int kPositions = 1, kCosines = 2, kSines = 3;
  const Dims table = p.dims(kCosines), dims = p.dims(0);
  p.expect(table.size() == 2 && p.dims(kSines) == table, "cosines and sines that do not fit each other");
  const int64_t half = table[1], angles = table[0];
  const Tokens tokens(p, half);
  const Ints sections = p.node.ints("mrope_section", {});
  p.expect(sections[kTime] + sections[kHeight] + sections[kWidth] == half,
           "the sections of mrope_section are not the pairs of channels that cosines are given for");
  p.expect(p.type(kPositions) == DType::kInt64 &&
               p.dims(kPositions) == Dims({kStreams, tokens.batch, tokens.rows}),
           "positions are three int64 for each token: [3, batch, sequence]");
  const std::vector<uint8_t> streams = streams_of(sections, p.node.i("mrope_layout", 0) == 1);
  const bool interleaved = p.node.i("interleaved", 0) == 1;
  const std::string label = p.node.label();
  p.out(0, p.type(0), dims);
  p.in_place(0, 0);
  return [=](const Args& args) {
    const int64_t* const places = args.in<int64_t>(kPositions);
    if (std::any_of(places, places + kStreams * tokens.count,
                    [=](int64_t at) { return at < 0 || at >= angles; })) {
      invalid(label + ": a position without an angle");
    }
    parallel_for(tokens.count, tokens.grain(), [&](int64_t i, int64_t end) {
      std::vector<float> turns(static_cast<size_t>(2 * half));
      for (; i < end; ++i) {
        for (int64_t c = 0; c < half; ++c) {
          const int64_t at = places[streams[static_cast<size_t>(c)] * tokens.count + i] * half + c;
          turns[static_cast<size_t>(c)] = args.in<float>(kCosines)[at];
          turns[static_cast<size_t>(half + c)] = args.in<float>(kSines)[at];
        }
        tokens.turn(i, args.in<float>(0), args.out<float>(0), turns.data(), turns.data() + half, interleaved);
      }
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  const auto add = [&](const char* domain, const char* type, auto of, auto prepare) {
    registry->add({.domain = domain,
                   .type = type,
                   .supports = of,
                   .prepare = with_halves(prepare),
                   .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kInt64}});
  };
  add("", "RotaryEmbedding", supports, rotary_embedding);
  add("com.microsoft", "RotaryEmbedding", supports, rotary_embedding);
  add("com.microsoft", "MRotaryEmbedding", supports_streams, streams_embedding);
});

}  // namespace ephost::cpu
