// What a made-up model looks like: its tensors, how they lie in shards, and the files around them.
#pragma once

#include <string>
#include <vector>

#include "chunker/dtype.h"

namespace p2pw::series {

enum class Role : std::uint8_t {
  matrix,     // weights around 0 that train
  norm,       // weights around 1 that train
  constant,   // drawn once, the same in every step
  fp8_weight, // codes of a matrix in blocks of 128 x 128; written together with its scales
  fp8_scale,  // written by its weight
};

struct Tensor {
  std::string name;
  Dtype dtype = Dtype::bf16;
  std::vector<std::uint64_t> shape;
  Role role = Role::matrix;
  float spread = 0.02f;        // standard deviation of a matrix
  std::size_t scales = 0;      // of an fp8_weight: index of its scales
  std::size_t shard = 0;
  std::uint64_t offset = 0;    // in its shard's file

  std::uint64_t elements() const;
  std::uint64_t bytes() const { return elements() * element_bytes(dtype); }
};

struct Shard {
  std::string file;
  std::string header;  // prefix and JSON
  std::uint64_t bytes = 0;
};

struct Plan {
  std::vector<Tensor> tensors;
  std::vector<Shard> shards;
  std::string index;      // model.safetensors.index.json
  std::string config;     // config.json without its closing brace
  std::string tokenizer;  // tokenizer.json
  std::uint64_t tensor_bytes = 0;
};

struct ModelOptions {
  std::uint64_t bytes = 64u << 20;  // of all tensors, about
  std::string dtype = "BF16";       // BF16, F16, F32, F8_E4M3, mixed, fp8-block, moe
  std::size_t moe_tensors = 0;      // moe: expert tensors in all; 0: from the size
};

Plan plan_model(const ModelOptions& options);

}  // namespace p2pw::series
