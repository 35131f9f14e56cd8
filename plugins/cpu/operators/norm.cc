// BatchNormalization as inference has it (a factor and a term for each channel), and LRN.
#include <cmath>
#include <limits>

#include "cpu/engines/as_float.h"
#include "cpu/engines/onednn_operators.h"
#include "cpu/operator.h"
#include "toolkit/passes/epilogue.h"

namespace ephost::cpu {
namespace {

// y = x * factor[c] + term[c], kept between two bounds.
template <typename T>
void affine(const Desc& desc, const T* factor, const T* term, T low, T high, const T* x, T* y) {
  const int64_t channels = desc.dims[1], size = count(desc.dims, 2, desc.dims.size());
  const int64_t block = block_of(desc.layout);
  const bool bounded = low > -std::numeric_limits<T>::infinity() || high < std::numeric_limits<T>::infinity();
  const auto bound = [=](T v) { return v < low ? low : v > high ? high : v; };
  if (desc.layout == Layout::kChannelsLast || size == 1) {
    parallel_for(desc.dims[0] * size, std::max<int64_t>(1, kGrain / (channels + 1)),
                 [&](int64_t i, int64_t end) {
                   for (; i < end; ++i) {
                     const T* from = x + i * channels;
                     T* to = y + i * channels;
                     for (int64_t c = 0; c < channels; ++c) to[c] = from[c] * factor[c] + term[c];
                     for (int64_t c = 0; bounded && c < channels; ++c) to[c] = bound(to[c]);
                   }
                 });
    return;
  }
  const int64_t groups = (channels + block - 1) / block;
  parallel_for(desc.dims[0] * groups, std::max<int64_t>(1, kGrain / (size * block + 1)),
               [&](int64_t i, int64_t end) {
                 for (; i < end; ++i) {
                   const T* from = x + i * size * block;
                   T* to = y + i * size * block;
                   const int64_t first = i % groups * block;
                   if (block == 1) {
                     const T a = factor[first], b = term[first];
                     if (bounded) {
                       for (int64_t k = 0; k < size; ++k) to[k] = bound(from[k] * a + b);
                     } else {
                       for (int64_t k = 0; k < size; ++k) to[k] = from[k] * a + b;
                     }
                     continue;
                   }
                   T a[16] = {}, b[16] = {};  // Zero behind the last channel: the filling stays zero.
                   for (int64_t l = 0; l < std::min(block, channels - first); ++l) {
                     a[l] = factor[first + l];
                     b[l] = term[first + l];
                   }
                   if (block == 8) {
                     for (int64_t k = 0; k < size; ++k) {
                       for (int64_t l = 0; l < 8; ++l) to[k * 8 + l] = bound(from[k * 8 + l] * a[l] + b[l]);
                     }
                   } else {
                     for (int64_t k = 0; k < size; ++k) {
                       for (int64_t l = 0; l < block; ++l) {
                         to[k * block + l] = bound(from[k * block + l] * a[l] + b[l]);
                       }
                     }
                   }
                   // A lower bound above zero would fill the rest.
                   for (int64_t l = channels - first; l < block; ++l) {
                     for (int64_t k = 0; k < size; ++k) to[k * block + l] = T{};
                   }
                 }
               });
}

// The input; one of a single dimension is a batch of one channel.
Desc with_channels(const Prepare& p) {
  Desc in = p.in(0);
  p.expect(in.dims.size() >= 1, "the input has a batch");
  if (in.dims.size() == 1) in.dims.push_back(1);
  return in;
}

template <typename T>
Kernel batch_norm_of(Prepare& p) {
  const Desc in = with_channels(p);
  const int64_t channels = in.dims[1];
  for (int i = 1; i < 5; ++i) {
    p.expect(p.dims(i) == Dims{channels}, "scale, bias, mean and variance have one element for each channel");
  }
  const T epsilon = static_cast<T>(p.node.f("epsilon", 1e-5f));
  p.scratch(static_cast<size_t>(2 * channels) * sizeof(T));
  return [=](const Args& args) {
    const T *scale = args.in<T>(1), *bias = args.in<T>(2), *mean = args.in<T>(3), *variance = args.in<T>(4);
    T *factor = args.scratch<T>(), *term = factor + channels;
    for (int64_t c = 0; c < channels; ++c) {
      factor[c] = scale[c] / std::sqrt(variance[c] + epsilon);
      term[c] = bias[c] - mean[c] * factor[c];
    }
    affine<T>(in, factor, term, -std::numeric_limits<T>::infinity(), std::numeric_limits<T>::infinity(),
              args.in<T>(0), args.out<T>(0));
  };
}

Kernel batch_norm(Prepare& p) {
  const Desc in = p.in(0);
  for (int i = 1; i < 5; ++i) {
    p.expect(p.type(i) == in.type, "all inputs have the same type");
  }
  p.out(0, in.type, in.dims, in.layout);
  p.in_place(0, 0);
  return in.type == DType::kDouble ? batch_norm_of<double>(p) : batch_norm_of<float>(p);
}

// "ephost.ChannelAffine": x, factor, term; with an activation that is a bound.
Kernel channel_affine(Prepare& p) {
  const Desc in = with_channels(p);
  p.expect(p.in(1).count() == in.dims[1] && p.in(2).count() == in.dims[1],
           "factor and term have one element for each channel");
  p.out(0, in.type, p.dims(0), in.layout);
  p.in_place(0, 0);
  float low = -std::numeric_limits<float>::infinity(), high = -low;
  for (const PostOp& post_op : post_ops_of(p.node)) {
    const bool relu = post_op.is(Activation::kRelu);  // Or a Clip.
    low = std::max(low, relu ? 0.0f : post_op.alpha);
    high = relu ? high : std::min(high, post_op.beta);
  }
  return [=](const Args& args) {
    affine<float>(in, args.in<float>(1), args.in<float>(2), low, high, args.in<float>(0), args.out<float>(0));
  };
}

Kernel lrn(Prepare& p) {
  const Desc in = p.in(0);
  p.expect(in.dims.size() >= 2, "the input has at least two dimensions");
  const int64_t size = p.node.i("size", 1);
  const float alpha = p.node.f("alpha", 1e-4f), beta = p.node.f("beta", 0.75f), bias = p.node.f("bias", 1.0f);
  p.expect(size > 0, "the size is positive");
  if (Kernel kernel = onednn_lrn(p, size, alpha, beta, bias)) {
    return kernel;
  }
  p.require(0, Layout::kPlain);
  p.out(0, in.type, in.dims);
  const int64_t channels = in.dims[1], inner = count(in.dims, 2, in.dims.size());
  // No more than there are channels, so that sums and products of them do not overflow.
  const int64_t before = std::min(channels, (size - 1) / 2), after = std::min(channels, size / 2);
  return [=, batch = in.dims[0]](const Args& args) {
    const float* x = args.in<float>(0);
    float* y = args.out<float>(0);
    parallel_for(batch * channels, std::max<int64_t>(1, kGrain / 16 / (inner * (before + 1 + after) + 1)),
                 [&](int64_t i, int64_t end) {
                   for (; i < end; ++i) {
                     const int64_t c = i % channels, n = i / channels;
                     const int64_t first = std::max<int64_t>(0, c - before),
                                   last = std::min(channels - 1, c + after);
                     for (int64_t k = 0; k < inner; ++k) {
                       float sum = 0;
                       for (int64_t j = first; j <= last; ++j) {
                         const float value = x[(n * channels + j) * inner + k];
                         sum += value * value;
                       }
                       y[i * inner + k] =
                           x[i * inner + k] / std::pow(bias + alpha / static_cast<float>(size) * sum, beta);
                     }
                   }
                 });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "BatchNormalization",
                 .supports = [](const Node& node) -> std::string {
                   if (node.i("training_mode", 0) != 0 || (node.version < 7 && node.i("is_test", 0) == 0)) {
                     return "training";
                   }
                   if (node.i("spatial", 1) == 0) {
                     return "statistics for each element";
                   }
                   for (size_t o = 1; o < node.outputs.size(); ++o) {
                     if (node.outputs[o] != nullptr) return "outputs of training";
                   }
                   return "";
                 },
                 .prepare = with_halves(batch_norm),
                 .types = kFloats,
                 .any_layout = true});
  registry->add({.domain = "ephost",
                 .type = "ChannelAffine",
                 .prepare = channel_affine,
                 .types = {DType::kFloat},
                 .any_layout = true});
  registry->add({.type = "LRN",
                 .prepare = with_halves(lrn),
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16},
                 .any_layout = true});
});

}  // namespace ephost::cpu
