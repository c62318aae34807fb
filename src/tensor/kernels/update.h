#pragma once

#include <cstdint>
#include <span>

namespace rookery::kernels {

// One optimizer update of a piece of flat memory, in one pass. All spans have the same length; x is updated in place,
// and so is the state. g is multiplied by gradient_scale first (clipping costs no pass of its own). The result for an
// element depends on that element alone, so a buffer may be cut anywhere.

struct SgdUpdate {
  float lr;
  float momentum;
  bool nesterov;
  float weight_decay;
  float gradient_scale;
};
// g += wd·x;  v = μv + g;  x -= η(g + μv) if nesterov, else x -= ηv
void sgd(const SgdUpdate& u, std::span<float> x, std::span<const float> g, std::span<float> v);

struct AdamUpdate {
  float lr;
  float beta1;
  float beta2;
  float epsilon;
  float weight_decay;
  bool decoupled_decay;  // AdamW: x *= 1 - η·wd;  else Adam: g += wd·x
  float gradient_scale;
  float correction1;  // 1 - β1^k
  float correction2;  // 1 - β2^k
};
// m = β1·m + (1-β1)·g;  v = β2·v + (1-β2)·g²;  x -= η/c1 · m / (√v/√c2 + ε)
void adam(const AdamUpdate& u, std::span<float> x, std::span<const float> g, std::span<float> m, std::span<float> v);

// Adam whose moments are committed once per window of τ steps, from the window's mean gradient a:
//   a += g/τ;  x moves by m̂ = β1·m + (1-β1)·g and v̂ = β2·v + (1-β2)·g²;
//   if commit: m = β1·m + (1-β1)·a;  v = β2·v + (1-β2)·a²;  a = 0
struct AccumulatedAdamUpdate {
  AdamUpdate adam;
  float inverse_window;  // 1/τ
  bool commit;
};
void accumulated_adam(const AccumulatedAdamUpdate& u, std::span<float> x, std::span<const float> g, std::span<float> m,
                      std::span<float> v, std::span<float> a);

// LAMB needs the norms of a whole tensor before it moves it: a pass for the moments, then one for x.
//   r = (m/c1) / (√(v/c2) + ε) + wd·x
struct LambNorms {
  double x_squared;
  double r_squared;
};
LambNorms lamb_moments(const AdamUpdate& u, std::span<const float> x, std::span<const float> g, std::span<float> m,
                       std::span<float> v);
// x -= lr·trust·r
void lamb_apply(const AdamUpdate& u, float trust, std::span<float> x, std::span<const float> m,
                std::span<const float> v);

// Σ x², in an order that depends on the length alone: the same bits whatever the number of threads.
double sum_of_squares(std::span<const float> x);

// y += a·x
void add_scaled(float a, std::span<const float> x, std::span<float> y);

}  // namespace rookery::kernels
