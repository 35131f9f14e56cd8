// GridSample: an image at the places that a grid names.
#include <bit>
#include <cmath>
#include <limits>

#include "cpu/engines/as_float.h"
#include "cpu/engines/strided.h"
#include "cpu/operator.h"
#include "cpu/simd/simd.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

enum class Around { kZeros, kBorder, kReflection };

double reflected(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) {
    return low;
  }
  const double beyond = x < low ? low - x : x > high ? x - high : 0;
  if (beyond == 0) {
    return x;
  }
  const double turns = std::floor(beyond / range), rest = beyond - turns * range;
  const bool even = std::fmod(turns, 2) == 0;
  return (x < low) == even ? low + rest : high - rest;
}

// What one output point reads along one axis.
struct Place {
  int64_t index[4];
  double weight[4];
};

// For numbers that fit into 64 bits; the library's is a call.
double floor_of(double x) {
  const double whole = static_cast<double>(static_cast<int64_t>(x));
  return whole > x ? whole - 1 : whole;
}

struct Sampler {
  int64_t width = 2;  // 1: nearest, 2: linear, 4: cubic.
  Around around = Around::kZeros;
  bool corners = false;

  template <int64_t width>
  Place at(double normal, int64_t n) const {
    const double size = static_cast<double>(n), low = corners ? 0 : -0.5,
                 high = corners ? size - 1 : size - 0.5;
    double x = corners ? (normal + 1) / 2 * (size - 1) : ((normal + 1) * size - 1) / 2;
    // Whatever the grid holds, the indices below are numbers that fit.
    x = x != x ? -1e9 : std::clamp(x, -1e9, 1e9);
    if (width == 1) {
      x = std::nearbyint(x);
    }
    if (x < low || x > high) {
      x = around == Around::kBorder       ? std::clamp(x, 0.0, size - 1)
          : around == Around::kReflection ? reflected(x, low, high)
                                          : x;
    }
    Place place;
    const double floor = width == 1 ? std::nearbyint(x) : floor_of(x), t = x - floor;
    if (width == 1) {
      place.weight[0] = 1;
    } else if (width == 2) {
      place.weight[0] = 1 - t;
      place.weight[1] = t;
    } else {
      constexpr double a = -0.75;
      const double far[2] = {t + 1, 2 - t}, near[2] = {t, 1 - t};
      for (int side = 0; side < 2; ++side) {
        const double f = far[side], c = near[side];
        place.weight[side == 0 ? 0 : 3] = ((a * f - 5 * a) * f + 8 * a) * f - 4 * a;
        place.weight[side == 0 ? 1 : 2] = ((a + 2) * c - (a + 3)) * c * c + 1;
      }
    }
    for (int64_t k = 0; k < width; ++k) {
      int64_t i = static_cast<int64_t>(floor) + k - (width == 4 ? 1 : 0);
      if (i < 0 || i >= n) [[unlikely]] {
        if (around == Around::kZeros) {
          place.weight[k] = 0;
        }
        const double inside = around == Around::kReflection ? reflected(static_cast<double>(i), low, high)
                                                            : static_cast<double>(i);
        i = std::clamp<int64_t>(static_cast<int64_t>(inside), 0, n - 1);
      }
      place.index[k] = i;
    }
    return place;
  }
};

int64_t width_of(const Node& node) {
  const std::string mode = node.s("mode", node.version < 20 ? "bilinear" : "linear");
  return mode == "nearest"                        ? 1
         : mode == "linear" || mode == "bilinear" ? 2
         : mode == "cubic" || mode == "bicubic"   ? 4
                                                  : 0;
}

constexpr size_t kMostAxes = 3;

// Linear, of float32: pairs of neighbours along the innermost axis are read at once.
Kernel linear_pairs(const Dims& image, const Sampler& sampler, int64_t points) {
  const int64_t batch = image[0], channels = image[1], pixels = count(image, 2, image.size());
  const Dims sizes(image.begin() + 2, image.end());
  return [=](const Args& args) {
    const Simd& table = simd();
    const int64_t axes = static_cast<int64_t>(sizes.size());
    parallel_for(batch * points, 1 + kGrain / (channels * (int64_t{1} << axes) + 16),
                 [&](int64_t i, int64_t end) {
                   GridPairs pairs;
                   GridPoints grid{};
                   grid.axes = axes;
                   grid.sizes = sizes.data();
                   grid.corners = sampler.corners;
                   grid.border = sampler.around == Around::kBorder;
                   for (int64_t now; i < end; i += now) {
                     const int64_t b = i / points, point = i % points;
                     now = std::min({kGridPoints, end - i, points - point});
                     grid.places = args.in<float>(1) + i * axes;
                     grid.count = now;
                     table.grid_pairs(grid, pairs);
                     for (int64_t c = b * channels; c < (b + 1) * channels; ++c) {
                       table.grid_sums(pairs, args.in<float>(0) + c * pixels,
                                       args.out<float>() + c * points + point, now);
                     }
                   }
                 });
  };
}

Kernel grid_sample(Prepare& p) {
  const Dims &image = p.dims(0), &grid = p.dims(1);
  const size_t rank = image.size();
  const bool fits = rank >= 3 && rank <= 2 + kMostAxes && grid.size() == rank && grid[0] == image[0] &&
                    grid.back() == static_cast<int64_t>(rank) - 2;
  p.expect(fits, "the input and the grid do not fit together");
  const size_t axes = rank - 2;
  Sampler sampler;
  sampler.width = width_of(p.node);
  sampler.corners = p.node.i("align_corners", 0) != 0;
  const std::string around = p.node.s("padding_mode", "zeros");
  sampler.around = around == "border"       ? Around::kBorder
                   : around == "reflection" ? Around::kReflection
                                            : Around::kZeros;
  Dims to{image[0], image[1]};
  to.insert(to.end(), grid.begin() + 1, grid.end() - 1);
  p.out(0, p.type(0), to);
  const int64_t batch = image[0], channels = image[1], points = count(grid, 1, rank - 1);
  const int64_t pixels = count(image, 2, rank);
  p.expect(batch * points == 0 || pixels > 0, "the input has no elements");
  const Dims spatial(image.begin() + 2, image.end()), strides = strides_of(spatial);
  const DType type = p.type(0), grid_type = p.type(1);
  if (sampler.width == 2 && sampler.around != Around::kReflection && type == DType::kFloat &&
      grid_type == DType::kFloat && image.back() >= 2 && pixels <= std::numeric_limits<int32_t>::max()) {
    return linear_pairs(image, sampler, points);
  }
  int64_t most = 1;
  for (size_t d = 0; d < axes; ++d) most *= sampler.width;
  return [=](const Args& args) {
    with_float(type, [&](auto zero) {
      using T = decltype(zero);
      using A = arithmetic_t<T>;
      const auto read = [&](int64_t i, int64_t n, double* to) {
        with_float(grid_type, [&](auto kind) {
          using G = decltype(kind);
          const G* from = args.in<G>(1) + i;
          for (int64_t k = 0; k < n; ++k) to[k] = static_cast<arithmetic_t<G>>(from[k]);
        });
      };
      const auto sample = [&](auto known, int64_t i, int64_t end) {
        constexpr int64_t kWidth = known;
        // Points of an image are taken together: first where they read, then a channel at a time. Tap t of
        // point k is at t * kTogether + k.
        constexpr int64_t kTogether = 64;
        std::vector<int64_t> offsets(static_cast<size_t>(most * kTogether));
        std::vector<A> weights(offsets.size());
        // No bits where a weight is 0: what is not read may be infinite.
        using Bits = std::conditional_t<sizeof(A) == 4, uint32_t, uint64_t>;
        std::vector<Bits> masks(offsets.size());
        for (int64_t now; i < end; i += now) {
          const int64_t b = i / points, point = i % points;
          now = std::min({kTogether, end - i, points - point});
          double coordinates[kTogether * kMostAxes];
          read(i * static_cast<int64_t>(axes), now * static_cast<int64_t>(axes), coordinates);
          for (int64_t k = 0; k < now; ++k) {
            int64_t* const at = offsets.data() + k;
            A* const weight = weights.data() + k;
            int64_t taps = 1;
            at[0] = 0;
            weight[0] = 1;
            for (size_t d = 0; d < axes; ++d) {
              // The grid names the innermost axis first.
              const double normal = coordinates[static_cast<size_t>(k) * axes + axes - 1 - d];
              const Place place = sampler.at<kWidth>(normal, spatial[d]);
              // Each tap so far becomes `width` of them; from the last one on, so that none is overwritten
              // early.
              for (int64_t t = taps; t-- > 0;) {
                for (int64_t j = kWidth; j-- > 0;) {
                  const int64_t into = (t * kWidth + j) * kTogether, from = t * kTogether;
                  at[into] = at[from] + place.index[j] * strides[d];
                  weight[into] = weight[from] * static_cast<A>(place.weight[j]);
                }
              }
              taps *= kWidth;
            }
          }
          for (size_t k = 0; k < masks.size(); ++k) masks[k] = weights[k] != A{} ? ~Bits{} : Bits{};
          for (int64_t c = 0; c < channels; ++c) {
            const T* x = args.in<T>(0) + (b * channels + c) * pixels;
            T* y = args.out<T>() + (b * channels + c) * points + point;
            A sums[kTogether] = {}, values[kTogether] = {};
            for (int64_t t = 0; t < most; ++t) {
              const int64_t* at = offsets.data() + t * kTogether;
              const A* weight = weights.data() + t * kTogether;
              const Bits* mask = masks.data() + t * kTogether;
              // What is read first, so that the rest can be done by vectors.
              for (int64_t k = 0; k < now; ++k) values[k] = static_cast<A>(x[at[k]]);
              for (int64_t k = 0; k < kTogether; ++k) {
                sums[k] += std::bit_cast<A>(std::bit_cast<Bits>(weight[k] * values[k]) & mask[k]);
              }
            }
            for (int64_t k = 0; k < now; ++k) y[k] = static_cast<T>(sums[k]);
          }
        }
      };
      parallel_for(batch * points, 1 + kGrain / (channels * most * 2 + 32), [&](int64_t i, int64_t end) {
        switch (sampler.width) {
          case 1:
            return sample(std::integral_constant<int64_t, 1>(), i, end);
          case 2:
            return sample(std::integral_constant<int64_t, 2>(), i, end);
          default:
            return sample(std::integral_constant<int64_t, 4>(), i, end);
        }
      });
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  for (const char* domain : {"", "com.microsoft"}) {  // there for old exporters
    registry->add({.domain = domain,
                   .type = "GridSample",
                   .supports =
                       [](const Node& node) {
                         return width_of(node) == 0 ? "mode '" + node.s("mode", "") + "'" : std::string();
                       },
                   .prepare = with_halves(grid_sample),
                   .types = kFloats});
  }
});

}  // namespace ephost::cpu
