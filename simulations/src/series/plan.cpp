#include "simulations/src/series/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace p2pw::series {
namespace {

constexpr std::uint64_t kFp8Block = 128;
constexpr std::uint64_t kShardBytes = 2ull << 30;
constexpr std::size_t kLeastShards = 2;

std::string layer_name(std::size_t layer, const std::string& rest) {
  return "model.layers." + std::to_string(layer) + "." + rest;
}

// Adds tensors until the wanted bytes are reached.
class Builder {
 public:
  explicit Builder(const ModelOptions& options) : options_(options) {
    mixed_ = options.dtype == "mixed";
    fp8_block_ = options.dtype == "fp8-block";
    main_ = dtype_from_name(options.dtype).value_or(Dtype::bf16);
    norm_ = mixed_ ? Dtype::f32 : fp8_block_ ? Dtype::bf16 : main_;
    double elements = static_cast<double>(options.bytes) / element_bytes(fp8_block_ ? Dtype::f8_e4m3 : main_);
    // About 16 layers of 11 hidden x hidden matrices each.
    auto wanted = static_cast<std::uint64_t>(std::sqrt(elements / (16 * 11)));
    hidden_ = std::clamp<std::uint64_t>(std::bit_floor(std::max<std::uint64_t>(1, wanted)), 32, 8192);
  }

  std::vector<Tensor> build() {
    if (mixed_) add_oddities();
    if (options_.dtype == "moe") {
      experts();
    } else {
      while (left() > layer_cost() + hidden_ * element_bytes(main_)) layer(layers_++);
    }
    add("model.norm.weight", norm_, {hidden_}, Role::norm);
    std::uint64_t rows = std::max<std::uint64_t>(1, left() / (hidden_ * element_bytes(plain())));
    add("model.embed_tokens.weight", plain(), {rows, hidden_}, Role::matrix);
    return std::move(tensors_);
  }
  std::uint64_t hidden() const { return hidden_; }
  std::size_t layers() const { return layers_; }

 private:
  std::uint64_t left() const { return bytes_ < options_.bytes ? options_.bytes - bytes_ : 0; }
  Dtype plain() const { return fp8_block_ ? Dtype::bf16 : main_; }
  std::uint64_t layer_cost() const {
    return std::max<std::uint64_t>(1, 11 * hidden_ * hidden_ * element_bytes(fp8_block_ ? Dtype::f8_e4m3 : main_));
  }

  std::size_t add(std::string name, Dtype dtype, std::vector<std::uint64_t> shape, Role role) {
    Tensor t;
    t.name = std::move(name);
    t.dtype = dtype;
    t.shape = std::move(shape);
    t.role = role;
    // The range of F8_E4M3 without scales is narrow: weights around 0.02 would all be subnormal.
    if (dtype == Dtype::f8_e4m3 && role == Role::matrix) t.spread = 1.0f;
    bytes_ += t.bytes();
    tensors_.push_back(std::move(t));
    return tensors_.size() - 1;
  }

  void matrix(const std::string& name, std::uint64_t rows, std::uint64_t columns, Dtype mixed_dtype) {
    if (fp8_block_) {
      std::vector<std::uint64_t> blocks{(rows + kFp8Block - 1) / kFp8Block, (columns + kFp8Block - 1) / kFp8Block};
      std::size_t weight = add(name, Dtype::f8_e4m3, {rows, columns}, Role::fp8_weight);
      tensors_[weight].spread = 0.02f;
      std::size_t scales = add(name + "_scale_inv", Dtype::f32, blocks, Role::fp8_scale);
      tensors_[weight].scales = scales;
      return;
    }
    add(name, mixed_ ? mixed_dtype : main_, {rows, columns}, Role::matrix);
  }

  void attention(std::size_t i) {
    std::uint64_t h = hidden_, kv = std::max<std::uint64_t>(8, h / 4);
    add(layer_name(i, "input_layernorm.weight"), norm_, {h}, Role::norm);
    matrix(layer_name(i, "self_attn.q_proj.weight"), h, h, Dtype::bf16);
    matrix(layer_name(i, "self_attn.k_proj.weight"), kv, h, Dtype::bf16);
    matrix(layer_name(i, "self_attn.v_proj.weight"), kv, h, Dtype::bf16);
    matrix(layer_name(i, "self_attn.o_proj.weight"), h, h, Dtype::f32);
    add(layer_name(i, "post_attention_layernorm.weight"), norm_, {h}, Role::norm);
  }

  void layer(std::size_t i) {
    std::uint64_t h = hidden_, wide = h * 11 / 4;
    attention(i);
    matrix(layer_name(i, "mlp.gate_proj.weight"), wide, h, Dtype::f16);
    matrix(layer_name(i, "mlp.up_proj.weight"), wide, h, Dtype::bf16);
    matrix(layer_name(i, "mlp.down_proj.weight"), h, wide, Dtype::f8_e4m3);
  }

  // Most bytes in small expert tensors, three for each expert.
  void experts() {
    std::uint64_t bytes = options_.bytes * 4 / 5;
    std::size_t count = options_.moe_tensors != 0 ? options_.moe_tensors
                                                  : std::clamp<std::size_t>(bytes / (64u << 10), 24, 8192);
    constexpr std::size_t kExperts = 64;
    // Attention is there for completeness; it must not take the bytes of the experts.
    std::size_t layers = (count + 3 * kExperts - 1) / (3 * kExperts);
    auto wanted = static_cast<std::uint64_t>(
        std::sqrt(static_cast<double>(options_.bytes / 8) / (2.5 * static_cast<double>(layers * element_bytes(main_)))));
    hidden_ = std::clamp<std::uint64_t>(std::bit_floor(std::max<std::uint64_t>(1, wanted)), 8, hidden_);
    std::uint64_t elements = std::max<std::uint64_t>(8, bytes / count / element_bytes(main_));
    std::uint64_t columns = std::bit_floor(static_cast<std::uint64_t>(std::sqrt(static_cast<double>(elements))));
    static constexpr const char* kParts[] = {"gate_proj", "up_proj", "down_proj"};
    for (std::size_t made = 0; made < count; ++made) {
      std::size_t expert = made / 3 % kExperts, i = made / 3 / kExperts;
      if (i == layers_) {
        attention(layers_++);
        add(layer_name(i, "mlp.gate.weight"), main_, {kExperts, hidden_}, Role::matrix);
      }
      add(layer_name(i, "mlp.experts." + std::to_string(expert) + "." + kParts[made % 3] + ".weight"), main_,
          {elements / columns, columns}, Role::matrix);
    }
  }

  // What a strict reader must take: rank 0, no elements, odd sizes, every width.
  void add_oddities() {
    add("model.buffers.empty", Dtype::f16, {0, hidden_}, Role::constant);
    add("model.buffers.inv_freq", Dtype::f32, {hidden_ / 2}, Role::constant);
    add("model.buffers.mask", Dtype::boolean, {13}, Role::constant);
    add("model.buffers.packed", Dtype::u8, {7, 9}, Role::constant);
    add("model.buffers.position_ids", Dtype::i64, {hidden_}, Role::constant);
    add("model.buffers.scalar", Dtype::f64, {}, Role::constant);
    add("model.buffers.zero_points", Dtype::i32, {5}, Role::constant);
  }

  ModelOptions options_;
  bool mixed_ = false, fp8_block_ = false;
  Dtype main_ = Dtype::bf16, norm_ = Dtype::bf16;
  std::uint64_t hidden_ = 0, bytes_ = 0;
  std::size_t layers_ = 0;
  std::vector<Tensor> tensors_;
};

std::string number_name(std::size_t number) {
  std::string digits = std::to_string(number);
  return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
}

void put_prefix(std::string& header) {
  while (header.size() % 8 != 0) header += ' ';
  std::string prefix(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) prefix[i] = static_cast<char>(header.size() >> (8 * i));
  header.insert(0, prefix);
}

// Spreads the tensors over shards in the order given, then sorts each shard as the safetensors writer does: wide dtypes
// first, then by name.
void lay_out(Plan& plan) {
  for (const Tensor& t : plan.tensors) plan.tensor_bytes += t.bytes();
  std::size_t count = std::max<std::size_t>(kLeastShards, (plan.tensor_bytes + kShardBytes - 1) / kShardBytes);
  std::uint64_t done = 0;
  std::vector<std::vector<Tensor*>> members(count);
  for (Tensor& t : plan.tensors) {
    std::uint64_t middle = done + t.bytes() / 2;
    t.shard = std::min<std::size_t>(count - 1, static_cast<std::size_t>(
        static_cast<unsigned __int128>(middle) * count / std::max<std::uint64_t>(1, plan.tensor_bytes)));
    done += t.bytes();
    members[t.shard].push_back(&t);
  }
  for (std::size_t s = 0; s < count; ++s) {
    std::sort(members[s].begin(), members[s].end(), [](const Tensor* a, const Tensor* b) {
      unsigned wa = element_bytes(a->dtype), wb = element_bytes(b->dtype);
      return wa != wb ? wa > wb : a->dtype != b->dtype ? a->dtype > b->dtype : a->name < b->name;
    });
    Shard shard;
    shard.file = "model-" + number_name(s + 1) + "-of-" + number_name(count) + ".safetensors";
    shard.header = "{\"__metadata__\":{\"format\":\"pt\"}";
    std::uint64_t offset = 0;
    for (const Tensor* t : members[s]) {
      shard.header += ",\"" + t->name + "\":{\"dtype\":\"" + std::string(name_of(t->dtype)) + "\",\"shape\":[";
      for (std::size_t d = 0; d < t->shape.size(); ++d) {
        shard.header += (d == 0 ? "" : ",") + std::to_string(t->shape[d]);
      }
      shard.header += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + t->bytes()) + "]}";
      offset += t->bytes();
    }
    shard.header += "}";
    put_prefix(shard.header);
    std::uint64_t at = shard.header.size();
    for (Tensor* t : members[s]) {
      t->offset = at;
      at += t->bytes();
    }
    shard.bytes = at;
    plan.shards.push_back(std::move(shard));
  }
}

void write_index(Plan& plan) {
  plan.index = "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(plan.tensor_bytes) +
               "\n  },\n  \"weight_map\": {";
  const char* separator = "\n";
  for (const Tensor& t : plan.tensors) {
    plan.index += std::string(separator) + "    \"" + t.name + "\": \"" + plan.shards[t.shard].file + "\"";
    separator = ",\n";
  }
  plan.index += "\n  }\n}\n";
}

void write_side_files(Plan& plan, const ModelOptions& options, std::uint64_t hidden, std::size_t layers) {
  plan.config = "{\n  \"architectures\": [\n    \"LlamaForCausalLM\"\n  ],\n  \"hidden_size\": " +
                std::to_string(hidden) + ",\n  \"num_hidden_layers\": " + std::to_string(layers) +
                ",\n  \"torch_dtype\": \"bfloat16\"";
  if (options.dtype == "fp8-block") {
    plan.config += ",\n  \"quantization_config\": {\n    \"activation_scheme\": \"dynamic\",\n    \"fmt\": \"e4m3\",\n"
                   "    \"quant_method\": \"fp8\",\n    \"weight_block_size\": [\n      128,\n      128\n    ]\n  }";
  }
  plan.tokenizer = "{\n  \"version\": \"1.0\",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"vocab\": {";
  constexpr int kWords = 2048;
  for (int i = 0; i < kWords; ++i) {
    plan.tokenizer += std::string(i == 0 ? "\n" : ",\n") + "      \"token_" + std::to_string(i * 7919 % 100003) +
                      "\": " + std::to_string(i);
  }
  plan.tokenizer += "\n    },\n    \"merges\": []\n  }\n}\n";
}

}  // namespace

std::uint64_t Tensor::elements() const {
  std::uint64_t product = 1;
  for (std::uint64_t dim : shape) product *= dim;
  return product;
}

Plan plan_model(const ModelOptions& options) {
  Builder builder(options);
  Plan plan;
  plan.tensors = builder.build();
  lay_out(plan);
  write_index(plan);
  write_side_files(plan, options, builder.hidden(), builder.layers());
  return plan;
}

}  // namespace p2pw::series
