// Samplers for JavaScript.
#include <algorithm>

#include "core/exports.h"
#include "core/guard.h"
#include "core/handle.h"
#include "lm/sampler_handle.h"

namespace mlx_runners {
namespace lm {

Napi::Object tokens_of(Napi::Env env, std::span<const SampledToken> tokens, const Sampling& how) {
  auto result = Napi::Object::New(env);
  auto ids = Napi::Int32Array::New(env, tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) ids[i] = tokens[i].id;
  result.Set("ids", ids);
  if (!how.logprobs) return result;
  const size_t top = tokens.empty() ? 0 : tokens.front().top.size();
  auto logprobs = Napi::Float64Array::New(env, tokens.size());
  auto top_ids = Napi::Int32Array::New(env, tokens.size() * top);
  auto top_logprobs = Napi::Float64Array::New(env, tokens.size() * top);
  for (size_t i = 0; i < tokens.size(); ++i) {
    logprobs[i] = tokens[i].logprob;
    for (size_t k = 0; k < top; ++k) {
      top_ids[i * top + k] = tokens[i].top[k].id;
      top_logprobs[i * top + k] = tokens[i].top[k].logprob;
    }
  }
  result.Set("logprobs", logprobs);
  result.Set("topIds", top_ids);
  result.Set("topLogprobs", top_logprobs);
  return result;
}

}  // namespace lm

namespace {

using lm::SamplerHandle;
using lm::SamplerUse;

lm::Sampling sampling_of(const Napi::Object& given) {
  const auto number = [&](const char* name) {
    return given.Get(name).As<Napi::Number>().DoubleValue();
  };
  lm::Sampling sampling;
  sampling.temperature = number("temperature");
  sampling.top_k = static_cast<size_t>(std::min(number("topK"), 0x1p31));
  sampling.top_p = number("topP");
  sampling.min_p = number("minP");
  sampling.typical_p = number("typicalP");
  sampling.xtc_probability = number("xtcProbability");
  sampling.xtc_threshold = number("xtcThreshold");
  sampling.repetition_penalty = number("repetitionPenalty");
  sampling.presence_penalty = number("presencePenalty");
  sampling.frequency_penalty = number("frequencyPenalty");
  sampling.logprobs = given.Get("logprobs").ToBoolean();
  sampling.top_logprobs = static_cast<size_t>(number("topLogprobs"));
  return sampling;
}

// createSampler(sampling, biases, seed) → sampler; biases: ids and what is added to their logits,
// in turn
napi_value create_sampler(const Napi::CallbackInfo& info) {
  lm::Sampling sampling = sampling_of(info[0].As<Napi::Object>());
  const auto biases = info[1].As<Napi::Float64Array>();
  for (size_t i = 0; i + 1 < biases.ElementLength(); i += 2) {
    if (biases[i] < 0 || biases[i] >= 0x1p31) continue;  // no model has such a token
    sampling.logit_bias[static_cast<int32_t>(biases[i])] = biases[i + 1];
  }
  bool lossless;
  const uint64_t seed = info[2].As<Napi::BigInt>().Uint64Value(&lossless);
  return external(info.Env(), SamplerHandle(new lm::SharedSampler{{std::move(sampling), seed}}));
}

// sampleToken(sampler, logits) → { ids, … }: see tokens_of
napi_value sample_token(const Napi::CallbackInfo& info) {
  const SamplerUse sampler(handle_of<SamplerHandle>(info[0]));
  const auto logits = info[1].As<Napi::Float32Array>();
  const lm::SampledToken token = sampler->sample({logits.Data(), logits.ElementLength()});
  return lm::tokens_of(info.Env(), {&token, 1}, sampler->sampling());
}

// addToken(sampler, id)
napi_value add_token(const Napi::CallbackInfo& info) {
  SamplerUse(handle_of<SamplerHandle>(info[0]))->add(info[1].As<Napi::Number>().Int32Value());
  return nullptr;
}

}  // namespace

void export_samplers(Napi::Env, Napi::Object exports) {
  export_function<create_sampler>(exports, "createSampler");
  export_function<sample_token>(exports, "sampleToken");
  export_function<add_token>(exports, "addToken");
}

}  // namespace mlx_runners
