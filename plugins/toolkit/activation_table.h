/* Every activation function, once. Included by the host's side of the plugins and by the sources of their
 * kernels, so there is nothing here but this list:
 *
 *   X(name, type, since, a, a_default, b, b_default, exponential, epilogue)
 *
 * name         What enums (kName) and formulas call it.
 * type, since  ONNX's operator that computes nothing else, and the opset version that it takes at least; ""
 * where there is none, or one with more to it (Clip, whose bounds are inputs). a, b         The attributes
 * that the formula's two parameters come from, "" for none, and their values where the model says nothing.
 * exponential  1 where the formula takes exponentials, which cost as much as several additions.
 * epilogue     1 where convolutions and products may apply it to what they write (passes/epilogue.h).
 *
 * A new activation is a row here, its formula in cpu/simd/formulas.h and its formula in
 * cuda/kernels/elementwise.cu; the compilers miss it where one is forgotten. For 1 in the last column
 * cpu/engines/onednn_epilogue.cc must know oneDNN's name of it too. */
#ifndef EPHOST_TOOLKIT_ACTIVATION_TABLE_H_
#define EPHOST_TOOLKIT_ACTIVATION_TABLE_H_

/* clang-format off */
#define EPHOST_ACTIVATIONS(X)                                                               \
  X(Relu,            "Relu",            6,  "",      0,          "",      0,       0, 1)    \
  X(LeakyRelu,       "LeakyRelu",       6,  "alpha", 0.01f,      "",      0,       0, 1)    \
  X(Elu,             "Elu",             6,  "alpha", 1,          "",      0,       1, 1)    \
  X(Celu,            "Celu",            12, "alpha", 1,          "",      0,       1, 0)    \
  X(Selu,            "Selu",            6,  "alpha", 1.6732632f, "gamma", 1.050701f, 1, 0)  \
  X(ThresholdedRelu, "ThresholdedRelu", 7,  "alpha", 1,          "",      0,       0, 0)    \
  X(HardSigmoid,     "HardSigmoid",     6,  "alpha", 0.2f,       "beta",  0.5f,    0, 1)    \
  X(HardSwish,       "HardSwish",       14, "alpha", 1.0f / 6,   "beta",  0.5f,    0, 1)    \
  X(Sigmoid,         "Sigmoid",         6,  "",      0,          "",      0,       1, 1)    \
  X(Tanh,            "Tanh",            6,  "",      0,          "",      0,       1, 1)    \
  X(Softplus,        "Softplus",        1,  "",      0,          "",      0,       1, 1)    \
  X(ParametricSoftplus, "ParametricSoftplus", 1, "alpha", 1, "beta",  1,       1, 0)    \
  X(Softsign,        "Softsign",        1,  "",      0,          "",      0,       0, 0)    \
  X(Mish,            "Mish",            18, "",      0,          "",      0,       1, 1)    \
  X(Shrink,          "Shrink",          9,  "bias",  0,          "lambd", 0.5f,    0, 0)    \
  X(Gelu,            "Gelu",            20, "",      0,          "",      0,       1, 1)    \
  X(GeluTanh,        "",                20, "",      0,          "",      0,       1, 1)    \
  X(Swish,           "Swish",           24, "alpha", 1,          "",      0,       1, 1)    \
  X(ScaledTanh,      "",                1,  "alpha", 1,          "beta",  1,       1, 0)    \
  X(Clip,            "",                6,  "min",   0,          "max",   0,       0, 1)    \
  X(Affine,          "",                1,  "alpha", 1,          "beta",  0,       0, 1)
/* clang-format on */

#endif
