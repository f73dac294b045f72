// Caches for JavaScript.
#include <memory>
#include <string>
#include <vector>

#include "core/environment.h"
#include "core/exports.h"
#include "core/guard.h"
#include "core/handle.h"
#include "lm/cell_cache.h"
#include "lm/sequence_cache.h"

namespace mlx_runners {
namespace {

namespace mx = mlx::core;

using lm::CellCache;
using lm::KvCache;
using lm::SequenceCache;
using CacheHandle = std::shared_ptr<KvCache>;

KvCache& cache_of(const Napi::CallbackInfo& info) { return *handle_of<CacheHandle>(info[0]); }
SequenceCache& sequence_cache_of(const Napi::CallbackInfo& info) {
  return dynamic_cast<SequenceCache&>(cache_of(info));
}
CellCache& cell_cache_of(const Napi::CallbackInfo& info) {
  return dynamic_cast<CellCache&>(cache_of(info));
}

int integer(const Napi::Value& value) { return value.As<Napi::Number>().Int32Value(); }

// Four numbers a layer: kvHeads, headSize, valueSize, window.
std::vector<lm::KvLayer> layers_of(const Napi::Value& value) {
  const auto list = value.As<Napi::Int32Array>();
  std::vector<lm::KvLayer> layers;
  for (size_t i = 0; i + 3 < list.ElementLength(); i += 4) {
    layers.push_back({list[i], list[i + 1], list[i + 2], list[i + 3]});
  }
  return layers;
}

// createSequenceCache(layers, storage, capacity, batch, initialCapacity, maxWrite) → cache
napi_value create_sequence_cache(const Napi::CallbackInfo& info) {
  lm::SequenceCacheOptions options;
  options.layers = layers_of(info[0]);
  options.storage = lm::kv_storage(info[1].ToString());
  options.capacity = integer(info[2]);
  options.batch = integer(info[3]);
  options.initial_capacity = integer(info[4]);
  options.max_write = integer(info[5]);
  return external<CacheHandle>(info.Env(), std::make_shared<SequenceCache>(std::move(options)));
}

// createCellCache(layers, storage, cells) → cache
napi_value create_cell_cache(const Napi::CallbackInfo& info) {
  return external<CacheHandle>(
      info.Env(), std::make_shared<CellCache>(
                      layers_of(info[0]), lm::kv_storage(info[1].ToString()), integer(info[2])));
}

// disposeCache(cache): a call that runs keeps it to its end
napi_value dispose_cache(const Napi::CallbackInfo& info) {
  info[0].As<Napi::External<CacheHandle>>().Data()->reset();
  return nullptr;
}

napi_value number(const Napi::CallbackInfo& info, double value) {
  return Napi::Number::New(info.Env(), value);
}

napi_value cache_bytes(const Napi::CallbackInfo& info) {
  return number(info, static_cast<double>(cache_of(info).bytes()));
}
napi_value compose_cache(const Napi::CallbackInfo& info) {
  cache_of(info).compose();
  return nullptr;
}

napi_value sequence_length(const Napi::CallbackInfo& info) {
  return number(info, sequence_cache_of(info).length());
}
napi_value max_write(const Napi::CallbackInfo& info) {
  return number(info, sequence_cache_of(info).max_write());
}
napi_value can_rewind(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), sequence_cache_of(info).can_rewind(integer(info[1])));
}
napi_value rewind(const Napi::CallbackInfo& info) {
  sequence_cache_of(info).rewind(integer(info[1]));
  return nullptr;
}
napi_value clear(const Napi::CallbackInfo& info) {
  sequence_cache_of(info).clear();
  return nullptr;
}
napi_value copy(const Napi::CallbackInfo& info) {
  return external<CacheHandle>(info.Env(), sequence_cache_of(info).copy());
}

// cacheState(cache) → Promise<{ names, ids }>
napi_value cache_state(const Napi::CallbackInfo& info) {
  auto& environment = Environment::of(info.Env());
  const CacheHandle handle = handle_of<CacheHandle>(info[0]);
  auto names = std::make_shared<std::vector<std::string>>();
  const auto deferred = Napi::Promise::Deferred::New(info.Env());
  environment.perform(
      environment.lane(), environment.stream(),
      [handle, names] {
        std::vector<mx::array> arrays;
        for (auto& [name, array] : dynamic_cast<SequenceCache&>(*handle).state()) {
          names->push_back(name);
          arrays.push_back(array);
        }
        return arrays;
      },
      [deferred, names](Napi::Env env, Evaluation& done) {
        if (done.error_code) return reject(deferred, done.error_code, done.error_message);
        auto& environment = Environment::of(env);
        auto list = Napi::Array::New(env, names->size());
        auto ids = Napi::Float64Array::New(env, names->size());
        for (uint32_t i = 0; i < names->size(); ++i) {
          list[i] = Napi::String::New(env, (*names)[i]);
          ids[i] = environment.add(std::move(done.arrays[i]), true);
        }
        auto result = Napi::Object::New(env);
        result.Set("names", list);
        result.Set("ids", ids);
        deferred.Resolve(result);
      });
  return deferred.Promise();
}

// loadCache(cache, names, ids): of computed arrays
napi_value load_cache(const Napi::CallbackInfo& info) {
  auto& environment = Environment::of(info.Env());
  const auto names = info[1].As<Napi::Array>();
  const auto ids = info[2].As<Napi::Float64Array>();
  SequenceCache::State state;
  for (uint32_t i = 0; i < names.Length(); ++i) {
    state.emplace(names.Get(i).ToString(), environment.arrays.at(ids[i]));
  }
  sequence_cache_of(info).load(state);
  return nullptr;
}

napi_value open_cells(const Napi::CallbackInfo& info) {
  return number(info, cell_cache_of(info).open());
}
napi_value free_cells(const Napi::CallbackInfo& info) {
  return number(info, cell_cache_of(info).free_cells());
}
napi_value cells_length(const Napi::CallbackInfo& info) {
  return number(info, cell_cache_of(info).length(integer(info[1])));
}
napi_value fork_cells(const Napi::CallbackInfo& info) {
  return number(info, cell_cache_of(info).fork(integer(info[1]), integer(info[2])));
}
napi_value remove_cells(const Napi::CallbackInfo& info) {
  cell_cache_of(info).remove(integer(info[1]), integer(info[2]), integer(info[3]));
  return nullptr;
}
napi_value close_cells(const Napi::CallbackInfo& info) {
  cell_cache_of(info).close(integer(info[1]));
  return nullptr;
}

}  // namespace

void export_caches(Napi::Env, Napi::Object exports) {
  export_function<create_sequence_cache>(exports, "createSequenceCache");
  export_function<create_cell_cache>(exports, "createCellCache");
  export_function<dispose_cache>(exports, "disposeCache");
  export_function<cache_bytes>(exports, "cacheBytes");
  export_function<compose_cache>(exports, "composeCache");
  export_function<sequence_length>(exports, "sequenceLength");
  export_function<max_write>(exports, "maxWrite");
  export_function<can_rewind>(exports, "canRewind");
  export_function<rewind>(exports, "rewindCache");
  export_function<clear>(exports, "emptyCache");
  export_function<copy>(exports, "copyCache");
  export_function<cache_state>(exports, "cacheState");
  export_function<load_cache>(exports, "loadCache");
  export_function<open_cells>(exports, "openCells");
  export_function<free_cells>(exports, "freeCells");
  export_function<cells_length>(exports, "cellsLength");
  export_function<fork_cells>(exports, "forkCells");
  export_function<remove_cells>(exports, "removeCells");
  export_function<close_cells>(exports, "closeCells");
}

}  // namespace mlx_runners
