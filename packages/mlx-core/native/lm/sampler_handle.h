// Samplers of JavaScript.
#pragma once

#include <napi.h>

#include <atomic>
#include <memory>
#include <span>

#include "core/errors.h"
#include "lm/sampler.h"

namespace mlx_runners::lm {

struct SharedSampler {
  Sampler sampler;
  std::atomic<bool> busy = false;
};
using SamplerHandle = std::shared_ptr<SharedSampler>;

// Held while a sampler is used, on whichever thread. Throws CodedError "USAGE" where it is in use.
class SamplerUse {
 public:
  explicit SamplerUse(SamplerHandle handle) : handle_(std::move(handle)) {
    if (handle_->busy.exchange(true)) {
      throw CodedError("USAGE", "generate() is using this sampler: await it first.");
    }
  }
  ~SamplerUse() { handle_->busy = false; }
  SamplerUse(const SamplerUse&) = delete;
  SamplerUse& operator=(const SamplerUse&) = delete;

  Sampler& operator*() const { return handle_->sampler; }
  Sampler* operator->() const { return &handle_->sampler; }

 private:
  SamplerHandle handle_;
};

// { ids, logprobs?, topIds?, topLogprobs? }: typed arrays; as many of the latter two for each
// token.
Napi::Object tokens_of(Napi::Env env, std::span<const SampledToken> tokens, const Sampling& how);

}  // namespace mlx_runners::lm
